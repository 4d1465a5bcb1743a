"""The report's scores: a table of F1 by group, and all rates beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proact_train.page.prose import render_fold, render_missing, render_paragraph
from proact_train.page.render import Section
from proact_train.page.table import Bar, Cell, Row, Table, count, render_table

from .folder import (
    BASELINES,
    CONTROLS,
    RL,
    SFT,
    STAGES,
    SWAPPED_FRAMES,
    SWAPPED_TOLD,
    UNTRAINED,
    DemoFolder,
)
from .reading import load_object, model_name

ROW_NAMES = {
    UNTRAINED: "untrained",
    SFT: "after SFT",
    RL: "after GSPO",
    SWAPPED_TOLD: "control: another query or memory",
    SWAPPED_FRAMES: "control: another video",
    "always_speak": "baseline: always speak",
    "always_silent": "baseline: always silent",
}
_GROUP_ORDER = ("object", "action", "intent")
_RATES = (
    ("precision", "precision"),
    ("recall", "recall"),
    ("f1", "F1"),
    ("gha", "GHA"),
    ("miou", "mIoU"),
    ("invalid", "invalid answers"),
)
_RATES_EXPLAINED = (
    "Event groups count frames, intent counts replies matched with intervals. GHA is the share of "
    "runs, of gold and of silence, that were hit. Invalid answers are the share of scored frames "
    "whose answer broke the grammar."
)
Scores = Mapping[str, Any]


def build_score_section(folder: DemoFolder) -> Section:
    """F1 by group, all rates, and what is missing."""
    intro = (
        "The same held-out streams before and after each stage, watched frame by frame on the "
        "model's own history. F1 is taken per stream and averaged over streams; intent is the "
        "unweighted mean of its domains."
    )
    found: dict[str, Scores] = {}
    missing = []
    for name in (*STAGES, *CONTROLS, *BASELINES):
        scores = load_object(folder.scores(name))
        if scores is not None:
            found[name] = scores
        elif name not in BASELINES:
            missing.append(render_missing(ROW_NAMES[name], folder.shown(folder.scores(name))))
    if not found:
        return Section("Scores", intro, tuple(missing))
    models = {name: model_name(folder.predictions(name)) for name in found}
    details = [
        render_paragraph(_RATES_EXPLAINED),
        *(render_table(rate_table(group, found)) for group in group_names(found)),
        render_paragraph(_explain_options(found)),
    ]
    parts = [
        render_table(f1_table(found, models)),
        render_paragraph(_explain_controls(found)),
        *missing,
        render_fold("Precision, recall, GHA, mIoU and invalid answers of every group", details),
    ]
    return Section("Scores", intro, tuple(parts))


def f1_table(found: Mapping[str, Scores], models: Mapping[str, str | None]) -> Table:
    """F1 in percent: a row for each Scores object, a column for each group."""
    groups = group_names(found)
    rows = []
    for name, scores in found.items():
        cells = [_percent_cell(scores["groups"].get(group), "f1") for group in groups]
        is_aside = name not in STAGES
        note = f"{_counts(scores)}; model {models[name] or 'not recorded'}"
        rows.append(Row(ROW_NAMES[name], tuple(cells), note, is_aside))
    caption = "F1 in percent on held-out streams (EgoPro protocol); n counts scored streams."
    return Table(caption, ("", *groups), tuple(rows))


def rate_table(group: str, found: Mapping[str, Scores]) -> Table:
    """Every rate of one group in percent."""
    rows = []
    for name, scores in found.items():
        values = scores["groups"].get(group)
        if values is None:
            continue
        cells = [_percent_cell(values, key, has_bar=False) for key, _ in _RATES]
        cells += [Cell(str(values["n"])), Cell(str(values["unscored"]))]
        rows.append(Row(ROW_NAMES[name], tuple(cells), "", name not in STAGES))
    header = (group, *(shown for _, shown in _RATES), "n streams", "unscored")
    return Table(
        f"{group.capitalize()}: rates in percent, means over streams.", header, tuple(rows)
    )


def group_names(found: Mapping[str, Scores]) -> list[str]:
    """All groups of all Scores objects, EgoPro's own first."""
    names = dict.fromkeys(group for scores in found.values() for group in scores["groups"])
    known = [group for group in _GROUP_ORDER if group in names]
    return known + [group for group in names if group not in _GROUP_ORDER]


def _percent_cell(values: Scores | None, key: str, has_bar: bool = True) -> Cell:
    value = None if values is None else values.get(key)
    if values is None or value is None:
        return Cell("–", "not scored")
    if not has_bar:
        return Cell(f"{100 * value:.1f}")
    return Cell(f"{100 * value:.1f}", f"n = {values['n']}", Bar(value))


def _counts(scores: Scores) -> str:
    unscored = f", {scores['unscored']} unscored" if scores["unscored"] else ""
    return f"{count(scores['n'], 'stream')}{unscored}"


def _explain_controls(found: Mapping[str, Scores]) -> str:
    controls = (
        "Controls: the model is told another stream's query or memory, or shown another stream's "
        "video, and is scored against the original gold. A model that uses what it is told and "
        "what it sees falls there."
    )
    if any(name in BASELINES for name in found):
        return controls + " Baselines need no model: they give one answer to every frame."
    return controls


def _explain_options(found: Mapping[str, Scores]) -> str:
    named = {
        f"{scores['protocol']} version {scores['version']}, "
        + ", ".join(f"{key} = {value}" for key, value in scores["options"].items())
        for scores in found.values()
    }
    return f"Protocol and options: {'; '.join(sorted(named))}."
