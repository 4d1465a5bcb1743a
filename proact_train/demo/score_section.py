"""The report's scores: a table of F1 by group, and all rates beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..page.prose import render_fold, render_missing, render_paragraph
from ..page.render import Section
from ..page.table import Bar, Cell, Row, Table, count, render_table
from .folder import BASELINES, CONTROLS, DemoFolder
from .reading import load_object, model_name
from .rows import row_name, stage_names

_GROUP_ORDER = ("object", "action", "intent")
_RATES = (
    ("precision", "precision"),
    ("recall", "recall"),
    ("f1", "F1"),
    ("gha", "GHA"),
    ("miou", "mIoU"),
    ("invalid", "invalid answers"),
)
_CONTROLS_EXPLAINED = (
    "Controls: the model is told another stream's query or memory, or shown another stream's "
    "video, and is scored against the original gold; one that uses what it is told and what it "
    "sees falls there. A baseline needs no model: it gives one answer to every frame."
)
_RATES_EXPLAINED = (
    "Event groups count frames, intent counts replies matched with intervals. GHA is the share of "
    "runs, of gold and of silence, that were hit. Invalid answers are the share of scored frames "
    "whose answer broke the grammar."
)


@dataclass(frozen=True)
class Scored:
    """A stage, control or baseline with its Scores object.

    Attributes:
        name: as the report calls it.
        model: what its predictions file names as the model.
        is_aside: a control or a baseline.
    """

    name: str
    scores: Mapping[str, Any]
    model: str
    is_aside: bool = False


def build_score_section(folder: DemoFolder) -> Section:
    """F1 by group, all rates, and what is missing."""
    intro = (
        "The same held-out streams before and after each stage, watched frame by frame on the "
        "model's own history. F1 is taken per stream and averaged over streams; intent is the "
        "unweighted mean of its domains."
    )
    stages = stage_names(folder)
    found: list[Scored] = []
    missing = []
    for name in (*stages, *CONTROLS, *BASELINES):
        shown, path = row_name(folder, name), folder.scores(name)
        scores = load_object(path)
        if scores is not None:
            found.append(Scored(shown, scores, _model(folder, name), name not in stages))
        elif name not in BASELINES:
            missing.append(render_missing(shown, folder.shown(path)))
    if not found:
        return Section("Scores", intro, tuple(missing))
    details = [
        render_paragraph(_RATES_EXPLAINED),
        *(render_table(rate_table(group, found)) for group in group_names(found)),
        render_paragraph(_explain_options(found)),
    ]
    parts = [
        render_table(f1_table(found)),
        render_paragraph(_CONTROLS_EXPLAINED),
        *missing,
        render_fold("Precision, recall, GHA, mIoU and invalid answers of every group", details),
    ]
    return Section("Scores", intro, tuple(parts))


def f1_table(found: Sequence[Scored]) -> Table:
    """F1 in percent: a row for each Scores object, a column for each group."""
    groups = group_names(found)
    rows = []
    for row in found:
        cells = [_percent_cell(row.scores["groups"].get(group), "f1") for group in groups]
        unscored = row.scores["unscored"]
        note = f"{count(row.scores['n'], 'stream')}, {unscored} unscored; model {row.model}"
        rows.append(Row(row.name, tuple(cells), note, row.is_aside))
    caption = "F1 in percent on held-out streams (EgoPro protocol); n counts scored streams."
    return Table(caption, ("", *groups), tuple(rows))


def rate_table(group: str, found: Sequence[Scored]) -> Table:
    """Every rate of one group in percent."""
    rows = []
    for row in found:
        values = row.scores["groups"].get(group)
        if values is None:
            continue
        cells = [_percent_cell(values, key, has_bar=False) for key, _ in _RATES]
        cells += [Cell(str(values["n"])), Cell(str(values["unscored"]))]
        rows.append(Row(row.name, tuple(cells), "", row.is_aside))
    caption = f"{group.capitalize()}: rates in percent, means over streams."
    header = (group, *(shown for _, shown in _RATES), "n streams", "unscored")
    return Table(caption, header, tuple(rows))


def group_names(found: Sequence[Scored]) -> list[str]:
    """All groups of all Scores objects, EgoPro's own first."""
    names = dict.fromkeys(group for row in found for group in row.scores["groups"])
    known = [group for group in _GROUP_ORDER if group in names]
    return known + [group for group in names if group not in _GROUP_ORDER]


def _model(folder: DemoFolder, name: str) -> str:
    model = model_name(folder.predictions(name))
    return "not recorded" if model is None else model.replace(f"{folder.root}/", "")


def _percent_cell(values: Mapping[str, Any] | None, key: str, has_bar: bool = True) -> Cell:
    value = None if values is None else values.get(key)
    if values is None or value is None:
        return Cell("–", "not scored")
    if not has_bar:
        return Cell(f"{100 * value:.1f}")
    return Cell(f"{100 * value:.1f}", f"n = {values['n']}", Bar(value))


def _explain_options(found: Sequence[Scored]) -> str:
    named = {
        f"{row.scores['protocol']} version {row.scores['version']}, "
        + ", ".join(f"{key} = {value}" for key, value in row.scores["options"].items())
        for row in found
    }
    return f"Protocol and options: {'; '.join(sorted(named))}."
