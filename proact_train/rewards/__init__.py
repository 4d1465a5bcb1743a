"""The rewards of stage 2 (paper 4.2): what a completion is worth.

    R = (format + length + history + semantic) + response

| reward   | value                                                                            |
|----------|----------------------------------------------------------------------------------|
| format   | 1 if the grammar holds, else 0, and then length, history and semantic are 0 too  |
| length   | decay(L(thought), 16, 22)                                                        |
| history  | 1 - max over earlier thoughts of sim_text(thought, earlier); 1 without history   |
| semantic | (sim_text(thought, gold) + sim_sem(thought, gold)) / 2                           |
| response | decay(L(answer), 26, 37) + sim_text, + sim_sem unless the gold is a marker       |

The six rewards have trl's signature, `(prompts, completions, **columns) -> list[float | None]`,
with the columns of an RL decision: `history_thoughts`, `gold_thought`, `gold_answer`, `kind`. A
completion is a string or trl's list of messages. `count_length`, `judge` and any option of
`RewardOptions` are bound beforehand:

    reward = functools.partial(total_reward, count_length=count, judge=judge, exact_markers=True)

None means unscored: the judge had no score. trl adds several reward functions with nansum, which
makes such a None a 0, so give GRPOTrainer `total_reward` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..core.types import Kind
from ..llm.judge import Judge
from .parts import (
    PART_NAMES,
    Reward,
    RewardOptions,
    RewardWeights,
    needed_parts,
    reward_parts,
    sum_parts,
)
from .text import CountLength, LengthUnit, build_length_counter, decay, sim_sem, sim_text

__all__ = [
    "PART_NAMES",
    "CountLength",
    "LengthUnit",
    "Reward",
    "RewardOptions",
    "RewardWeights",
    "build_length_counter",
    "decay",
    "format_reward",
    "history_reward",
    "length_reward",
    "needed_parts",
    "response_reward",
    "reward_parts",
    "semantic_reward",
    "sim_sem",
    "sim_text",
    "sum_parts",
    "total_reward",
]


def format_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    *,
    kind: Sequence[Kind],
    count_length: CountLength = len,
    **columns: Any,
) -> list[Reward]:
    """1 if the grammar holds, else 0. `count_length` matters to `min_thought_tokens` alone."""
    return _part("format", completions, kind, count_length, columns)


def length_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    *,
    kind: Sequence[Kind],
    count_length: CountLength,
    **columns: Any,
) -> list[Reward]:
    """`decay(L(thought), 16, 22)` (eq. 3); 0 after a format failure."""
    return _part("length", completions, kind, count_length, columns)


def history_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    *,
    kind: Sequence[Kind],
    history_thoughts: Sequence[Sequence[str]],
    count_length: CountLength = len,
    **columns: Any,
) -> list[Reward]:
    """`1 - max over h of sim_text(thought, h)` (eq. 4), 1 without history; 0 after a failure."""
    return _part("history", completions, kind, count_length, columns, history=history_thoughts)


def semantic_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    *,
    kind: Sequence[Kind],
    gold_thought: Sequence[str],
    judge: Judge,
    count_length: CountLength = len,
    **columns: Any,
) -> list[Reward]:
    """`(sim_text + sim_sem) / 2` with the gold thought (eq. 5); 0 after a failure, unasked."""
    return _part(
        "semantic", completions, kind, count_length, columns, thought=gold_thought, judge=judge
    )


def response_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    *,
    kind: Sequence[Kind],
    gold_answer: Sequence[str],
    count_length: CountLength,
    judge: Judge | None = None,
    **columns: Any,
) -> list[Reward]:
    """`decay(L(answer), 26, 37)` + content (eq. 7, 8), in [0, 3]; a marker as gold needs no judge.

    After a format failure the answer is the text behind the last `</think>`, judged like any other.
    """
    return _part(
        "response", completions, kind, count_length, columns, answer=gold_answer, judge=judge
    )


def total_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    *,
    kind: Sequence[Kind],
    gold_answer: Sequence[str],
    history_thoughts: Sequence[Sequence[str]] = (),
    gold_thought: Sequence[str] = (),
    count_length: CountLength,
    judge: Judge | None = None,
    weights: RewardWeights | Mapping[str, float] | None = None,
    **columns: Any,
) -> list[Reward]:
    """The weighted sum of the five (eq. 9), in [0, 7] with the paper's weights of 1.

    None as soon as a part that it needs is None. A part of weight 0 is not needed and costs no
    judge. Without thinking it is the response alone.
    """
    if not isinstance(weights, RewardWeights):
        weights = RewardWeights(**(weights or {}))
    options = _options(columns)
    names = needed_parts(weights, options)
    assert names, "every reward has weight 0"
    parts = reward_parts(
        completions,
        history_thoughts,
        gold_thought,
        gold_answer,
        kind,
        count_length,
        judge,
        options,
        names,
    )
    return sum_parts(parts, weights)


def _part(
    name: str,
    completions: Sequence[Any],
    kind: Sequence[Kind],
    count_length: CountLength,
    columns: dict[str, Any],
    history: Sequence[Sequence[str]] = (),
    thought: Sequence[str] = (),
    answer: Sequence[str] = (),
    judge: Judge | None = None,
) -> list[Reward]:
    parts = reward_parts(
        completions,
        history,
        thought,
        answer,
        kind,
        count_length,
        judge,
        _options(columns),
        (name,),
    )
    return parts[name]


def _options(columns: Mapping[str, Any]) -> RewardOptions:
    """Picks the options out of what trl passes along; a misspelt one is no column."""
    names = {field.name for field in fields(RewardOptions)}
    stray = [key for key in columns if key not in names and isinstance(columns[key], (bool, int))]
    if stray:
        raise TypeError(f"unknown option {stray[0]!r}; options are {', '.join(sorted(names))}")
    return RewardOptions(**{key: columns[key] for key in columns if key in names})
