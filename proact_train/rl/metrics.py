"""What a step logs, from the rows of all ranks. No torch, no reduction over ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev
from typing import Any

from .rows import ANSWER_CLASSES, Row


def rollout_metrics(rows: Sequence[Row], num_generations: int) -> dict[str, float]:
    """Rewards by name and class, groups, actions and lengths.

    Args:
        rows: of all ranks, the G rows of a decision side by side.
        num_generations: G.

    Returns:
        Metrics by name. A mean over no scored row is left out, never written as 0.
    """
    metrics = {
        "reward": _mean(row.rewards.total for row in rows),
        "reward/std": _std(row.rewards.total for row in rows),
        "reward/content_and_semantic": _mean(row.rewards.content_and_semantic for row in rows),
        "reward/content": _mean(row.rewards.content for row in rows),
    }
    for name in rows[0].rewards.parts:
        metrics[f"reward/{name}"] = _mean(row.rewards.parts[name] for row in rows)
    for name in ANSWER_CLASSES:
        of_class = [row for row in rows if row.answer_class == name]
        metrics[f"class/{name}/reward"] = _mean(row.rewards.total for row in of_class)
        metrics[f"class/{name}/accuracy"] = _mean(float(row.action == name) for row in of_class)
        metrics[f"class/{name}/share"] = len(of_class) / len(rows)
    for kind in sorted({row.kind for row in rows}):
        metrics[f"kind/{kind}/reward"] = _mean(
            row.rewards.total for row in rows if row.kind == kind
        )
    metrics |= _group_metrics(rows, num_generations) | _length_metrics(rows)
    return {name: value for name, value in metrics.items() if not math.isnan(value)}


def _group_metrics(rows: Sequence[Row], num_generations: int) -> dict[str, float]:
    totals = [row.rewards.total for row in rows]
    groups = [totals[at : at + num_generations] for at in range(0, len(totals), num_generations)]
    scored = [[total for total in group if total is not None] for group in groups]
    return {
        "groups/zero_variance": fmean(
            bool(group) and max(group) - min(group) <= 1e-8 for group in scored
        ),
        "groups/unscored": fmean(not group for group in scored),
        "rows/unscored": fmean(total is None for total in totals),
    }


def _length_metrics(rows: Sequence[Row]) -> dict[str, float]:
    lengths = [row.num_tokens for row in rows]
    return {
        "completions/mean_length": fmean(lengths),
        "completions/max_length": float(max(lengths)),
        "completions/truncated": fmean(row.is_truncated for row in rows),
        "completions/invalid": fmean(row.action == "invalid" for row in rows),
        "thoughts/mean_length": fmean(row.num_thought_tokens for row in rows),
    }


def table_row(row: Row, step: int) -> dict[str, Any]:
    """One line of `completions.jsonl`."""
    return {
        "step": step,
        "decision_id": row.decision_id,
        "kind": row.kind,
        "domain": row.domain,
        "class": row.answer_class,
        "gold_answer": row.gold_answer,
        "completion": row.text,
        "action": row.action,
        "reward": row.rewards.total,
        **{f"reward/{name}": value for name, value in row.rewards.parts.items()},
        "reward/content": row.rewards.content,
        "advantage": row.advantage,
        "num_tokens": row.num_tokens,
        "is_truncated": row.is_truncated,
    }


def spread(rows: Sequence[Row], num_rows: int) -> list[Row]:
    """`num_rows` rows spread evenly over `rows`, first and last included where two or more."""
    if num_rows >= len(rows):
        return list(rows)
    if num_rows <= 1:
        return list(rows[:num_rows])
    step = (len(rows) - 1) / (num_rows - 1)
    return [rows[round(at * step)] for at in range(num_rows)]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float:
    return _over_known(values, fmean, at_least=1)


def _std(values: Iterable[float | None]) -> float:
    return _over_known(values, stdev, at_least=2)


def _over_known(
    values: Iterable[float | None], statistic: Callable[[list[float]], float], at_least: int
) -> float:
    known = _known(values)
    return statistic(known) if len(known) >= at_least else math.nan
