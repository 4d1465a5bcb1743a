"""From completions to rows: text, action, rewards, advantages. The rewards are `rewards/`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..core.types import Decision, Turn
from ..llm.judge import Judge
from ..model.conversation import decode_answer
from ..rewards import RewardOptions, RewardWeights, build_length_counter, reward_parts, sum_parts
from ..rewards.parts import read_completion
from ..rewards.text import CountLength, decay
from ..stream import grammar
from .objective import group_advantages
from .recipe import RewardSettings
from .rows import Completion, Rewards, Row


@dataclass(frozen=True)
class Scorer:
    """Everything that turns a text into rewards."""

    processor: Any
    judge: Judge
    count_length: CountLength
    options: RewardOptions
    weights: RewardWeights


def build_scorer(settings: RewardSettings, processor: Any, with_thought: bool) -> Scorer:
    """The scorer of a recipe; lengths are counted with the policy's tokenizer unless told else."""
    from ..llm.similarity import SimilarityJudge

    def count_tokens(text: str) -> int:
        return len(processor.tokenizer(text, add_special_tokens=False)["input_ids"])

    return Scorer(
        processor,
        SimilarityJudge(),
        build_length_counter(settings.length_unit, count_tokens),
        RewardOptions(
            min_thought_tokens=settings.min_thought_tokens,
            exact_markers=settings.exact_markers,
            response_needs_format=settings.response_needs_format,
            with_thought=with_thought,
        ),
        RewardWeights(**settings.weights.model_dump()),
    )


def score_groups(
    scorer: Scorer, decisions: Sequence[Decision], groups: Sequence[Sequence[Completion]]
) -> list[list[Row]]:
    """Scores every completion; the judge is asked once about all of them.

    Returns:
        Rows as the groups stand, advantages included: an unscored row leaves its group and has 0.
    """
    flat = [(d, c) for d, group in zip(decisions, groups, strict=True) for c in group]
    texts = [decode_answer(scorer.processor, completion.token_ids) for _, completion in flat]
    rewards = score_texts(scorer, [decision for decision, _ in flat], texts)
    rows = [
        _row(scorer, decision, completion, text, reward)
        for (decision, completion), text, reward in zip(flat, texts, rewards, strict=True)
    ]
    grouped, at = [], 0
    for group in groups:
        grouped.append(_with_advantages(rows[at : at + len(group)]))
        at += len(group)
    return grouped


def score_texts(
    scorer: Scorer, decisions: Sequence[Decision], texts: Sequence[str]
) -> list[Rewards]:
    """The rewards of raw answers, each beside its decision."""
    parts = reward_parts(
        texts,
        [decision.history_thoughts for decision in decisions],
        [decision.gold_thought for decision in decisions],
        [decision.gold_answer for decision in decisions],
        [decision.kind for decision in decisions],
        scorer.count_length,
        scorer.judge,
        scorer.options,
    )
    totals = sum_parts(parts, scorer.weights)
    return [
        Rewards(
            {name: values[idx] for name, values in parts.items()},
            _content(scorer, decision, text, parts["response"][idx]),
            totals[idx],
        )
        for idx, (decision, text) in enumerate(zip(decisions, texts, strict=True))
    ]


def _content(scorer: Scorer, decision: Decision, text: str, response: float | None) -> float | None:
    """The response reward without its length term."""
    if response is None:
        return None
    answer = read_completion(text, decision.kind, scorer.count_length, scorer.options)
    if scorer.options.response_needs_format and not answer.has_format:
        return 0.0
    return response - decay(scorer.count_length(answer.answer), *scorer.options.answer_lengths)


def _row(
    scorer: Scorer, decision: Decision, completion: Completion, text: str, rewards: Rewards
) -> Row:
    turn = grammar.parse(text, decision.kind, scorer.options.with_thought)
    thought = turn.thought if isinstance(turn, Turn) else None
    return Row(
        decision_id=decision.decision_id,
        kind=decision.kind,
        domain=decision.domain,
        gold_answer=decision.gold_answer,
        text=text,
        action=turn.action if isinstance(turn, Turn) else "invalid",
        num_tokens=len(completion.token_ids),
        num_thought_tokens=scorer.count_length(thought) if thought else 0,
        is_truncated=completion.is_truncated,
        rewards=rewards,
    )


def _with_advantages(rows: Sequence[Row]) -> list[Row]:
    totals = [float("nan") if row.rewards.total is None else row.rewards.total for row in rows]
    advantages = group_advantages(torch.tensor([totals], dtype=torch.float64))[0].tolist()
    return [replace(row, advantage=value) for row, value in zip(rows, advantages, strict=True)]
