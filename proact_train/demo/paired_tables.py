"""The paired held-out measurement of stage 2 (RL_RUN/evaluation.json) as two tables."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from ..page.curves import format_number
from ..page.prose import render_fold, render_missing
from ..page.table import Cell, Row, Table, count, render_table
from .folder import DemoFolder
from .reading import load_object

_PAIRED = {"reward": "reward (sum)", "content_and_semantic": "content + semantic"}
_MEANS = {
    "reward/format": "format",
    "reward/length": "length",
    "reward/history": "history",
    "reward/semantic": "semantic",
    "reward/response": "response",
    "reward/content": "content (part of response)",
    "class/silence/accuracy": "right action, gold silence",
    "class/alert/accuracy": "right action, gold alert",
    "class/reply/accuracy": "right action, gold reply",
    "completions/invalid": "invalid answers",
    "completions/truncated": "truncated answers",
    "rows/unscored": "unscored answers",
    "completions/mean_length": "tokens an answer",
    "thoughts/mean_length": "tokens a thought",
}


def build_paired_parts(folder: DemoFolder, seed: int) -> tuple[Markup, ...]:
    """Paired differences of one run, its means by name folded; or what is missing."""
    path = folder.evaluation(seed)
    report = load_object(path)
    if report is None:
        return (render_missing("Held-out decisions", folder.shown(path)),)
    summary = "Rewards by name, right actions and lengths before and after"
    means = render_fold(summary, [render_table(means_table(report))])
    return render_table(paired_table(report, seed)), means


def paired_table(report: dict[str, Any], seed: int) -> Table:
    """Before, after and the mean difference with its two standard errors."""
    rows = []
    for key, name in _PAIRED.items():
        result = report["paired"].get(key)
        if result is None:
            rows.append(Row(name, (Cell("–", "unscored"),) * 5 + (Cell("0"),)))
            continue
        cells = [
            Cell(f"{result['before']:.4f}"),
            Cell(f"{result['after']:.4f}"),
            Cell(_signed(result["difference"])),
            Cell(_error(result["standard_error"])),
            Cell(_error(result["standard_error_by_stream"])),
            Cell(str(result["n"]), f"{result['unscored']} unscored" if result["unscored"] else ""),
        ]
        rows.append(Row(name, tuple(cells)))
    caption = (
        f"GSPO with seed {seed}: {count(report['num_decisions'], 'held-out decision')} of "
        f"{count(report['num_streams'], 'stream')}, {count(report['num_generations'], 'answer')} "
        f"each at temperature {report['temperature']:g} (sampling seed {report['seed']}). A "
        "decision's value is the mean of its answers. Standard errors are of the mean difference: "
        "decisions taken as independent, and the decisions of a stream as one cluster."
    )
    header = ("", "before", "after", "mean difference", "± SE", "± SE by stream", "n decisions")
    return Table(caption, header, tuple(rows))


def means_table(report: dict[str, Any]) -> Table:
    """Means over all held-out answers, before and after; what neither side has is left out."""
    before, after = report["before"], report["after"]
    rows = []
    for key, name in _MEANS.items():
        old, new = before.get(key), after.get(key)
        if old is None and new is None:
            continue
        change = None if old is None or new is None else new - old
        rows.append(Row(name, (_mean_cell(old), _mean_cell(new), Cell(_signed(change)))))
    num_answers = report["num_decisions"] * report["num_generations"]
    caption = (
        f"Means over the {num_answers:,} held-out answers by name. Rewards are before weights; "
        "right actions and invalid, truncated and unscored answers are shares."
    )
    return Table(caption, ("", "before GSPO", "after GSPO", "change"), tuple(rows))


def _mean_cell(value: float | None) -> Cell:
    return Cell("–", "no value") if value is None else Cell(format_number(value))


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.4f}".replace("-", "−")


def _error(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
