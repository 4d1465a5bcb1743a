"""A few sampled answers of stage 2 with their rewards, from RL_RUN/completions.jsonl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from ..page.prose import render_missing
from ..page.table import Cell, Row, Table, render_table
from .folder import DemoFolder
from .reading import load_rows

_CLASSES = ("silence", "alert", "reply")
_PARTS = ("format", "length", "history", "semantic", "response")


def build_completions_part(folder: DemoFolder, seed: int) -> Markup:
    """The table, or that its file is missing."""
    rows = pick_completions(load_rows(folder.completions(seed)))
    if not rows:
        return render_missing("Sampled answers", folder.shown(folder.completions(seed)))
    return render_table(completions_table(rows))


def pick_completions(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first logged answer of each gold class in the first, middle and last logged step.

    Picked by position, not by how good they look.
    """
    steps = sorted({row["step"] for row in rows})
    wanted = sorted({steps[0], steps[len(steps) // 2], steps[-1]}) if steps else []
    picked = []
    for step in wanted:
        of_step = [row for row in rows if row["step"] == step]
        firsts = (next((r for r in of_step if r["class"] == name), None) for name in _CLASSES)
        picked += [row for row in firsts if row is not None]
    return picked


def completions_table(rows: Sequence[dict[str, Any]]) -> Table:
    """One row an answer: what was written, what was right, what it earned."""
    header = ("", "answer as written", "gold answer", "action", "reward", *_PARTS, "advantage")
    caption = (
        "One answer of each gold class from the first, the middle and the last logged step: the "
        "first in the file, not the best. n = 1 in every row; – is unscored."
    )
    return Table(caption, header, tuple(map(_row, rows)), frozenset({0, 1}))


def _row(row: dict[str, Any]) -> Row:
    cells = (
        Cell(row["completion"], "cut at the length limit" if row["is_truncated"] else ""),
        Cell(row["gold_answer"]),
        Cell(row["action"]),
        Cell(_number(row["reward"])),
        *(Cell(_number(row.get(f"reward/{name}"))) for name in _PARTS),
        Cell(_number(row["advantage"])),
    )
    return Row(f"step {row['step']}, {row['class']}", cells, row["decision_id"])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")
