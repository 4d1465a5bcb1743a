"""The five rewards of a batch of completions and their sum (paper 4.2, eq. 4 to 9).

Each `…_part` is one formula; `reward_parts` reads a completion once and asks the judge once; the
front door's functions are views of it. Nothing here knows a tokenizer, a model or a network: what
counts lengths and what judges is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.types import Kind, ParseFailure
from ..llm.judge import Judge, Score
from ..stream import grammar
from .text import CountLength, decay, sim_sem, sim_text

Reward = float | None
PART_NAMES = ("format", "length", "history", "semantic", "response")
# Where the two length rewards begin to fall and where they reach 0 (paper 4.2).
THOUGHT_LENGTHS = (16, 22)
ANSWER_LENGTHS = (26, 37)


@dataclass(frozen=True)
class RewardWeights:
    """The weight of each reward in the sum; the paper's are all 1. Weight 0: not needed."""

    format: float = 1.0
    length: float = 1.0
    history: float = 1.0
    semantic: float = 1.0
    response: float = 1.0


@dataclass(frozen=True)
class RewardOptions:
    """What the paper's formulas leave open. The defaults are the paper's.

    Attributes:
        min_thought_tokens: a shorter thought (in the length unit) fails the format. At 0 an empty
            thought earns 3 of the 4 reasoning points.
        exact_markers: where the gold is a marker, the content is 1 for that marker and 0 for
            anything else. Off, `<Attention>` against `<Silence>` earns 0.40.
        response_needs_format: after a format failure the response earns 0. Off, it earns what the
            text behind the last `</think>` is worth.
        with_thought: False for models that answer without thinking; the sum is then the response.
        thought_lengths: where the length reward of the thought begins and ends to fall.
        answer_lengths: the same for the answer.
    """

    min_thought_tokens: int = 0
    exact_markers: bool = False
    response_needs_format: bool = False
    with_thought: bool = True
    thought_lengths: tuple[int, int] = THOUGHT_LENGTHS
    answer_lengths: tuple[int, int] = ANSWER_LENGTHS


@dataclass(frozen=True)
class Answer:
    """A completion as the rewards see it. `thought` is None if the format failed."""

    thought: str | None
    answer: str
    has_format: bool


def read_completion(
    completion: Any, kind: Kind, count_length: CountLength, options: RewardOptions
) -> Answer:
    """Parses a completion and applies `min_thought_tokens`."""
    text = completion_text(completion)
    turn = grammar.parse(text, kind, options.with_thought)
    if isinstance(turn, ParseFailure):
        return Answer(None, turn.answer, has_format=False)
    if turn.thought is None:
        return Answer(None, turn.answer, has_format=True)
    if options.min_thought_tokens and count_length(turn.thought) < options.min_thought_tokens:
        return Answer(None, turn.answer, has_format=False)
    return Answer(turn.thought, turn.answer, has_format=True)


def completion_text(completion: Any) -> str:
    """The text of a completion: a string, or a list of messages (trl's conversational form)."""
    if isinstance(completion, str):
        return completion
    contents = [message["content"] for message in completion]
    return "".join(
        content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        for content in contents
    )


def format_part(answer: Answer) -> Reward:
    """1 if the grammar holds, else 0 (paper: format reward)."""
    return float(answer.has_format)


def length_part(answer: Answer, count_length: CountLength, options: RewardOptions) -> Reward:
    """Decay of the thought's length from 16 to 22 (eq. 3); 0 after a failure."""
    if answer.thought is None:
        return 0.0
    return decay(count_length(answer.thought), *options.thought_lengths)


def history_part(answer: Answer, history_thoughts: Sequence[str]) -> Reward:
    """One minus the closest earlier thought's likeness (eq. 4); 1 without history, 0 if failed."""
    if answer.thought is None:
        return 0.0
    closest = max((sim_text(answer.thought, earlier) for earlier in history_thoughts), default=0.0)
    return 1.0 - closest


def semantic_part(answer: Answer, gold_thought: str, score: Score) -> Reward:
    """Mean of textual and semantic similarity with the gold thought (eq. 5); 0 after a failure."""
    if answer.thought is None:
        return 0.0
    if score is None:
        return None
    return (sim_text(answer.thought, gold_thought) + sim_sem(score)) / 2


def response_part(
    answer: Answer,
    gold_answer: str,
    score: Score,
    count_length: CountLength,
    options: RewardOptions,
) -> Reward:
    """Decay of the answer's length from 26 to 37, plus its content (eq. 7 and 8), in [0, 3]."""
    if options.response_needs_format and not answer.has_format:
        return 0.0
    length = decay(count_length(answer.answer), *options.answer_lengths)
    if gold_answer in grammar.MARKERS:
        if options.exact_markers:
            return length + float(answer.answer == gold_answer)
        return length + sim_text(answer.answer, gold_answer)
    if score is None:
        return None
    return length + sim_text(answer.answer, gold_answer) + sim_sem(score)


def thought_pair(answer: Answer, gold_thought: str) -> tuple[str, str] | None:
    """What the judge is asked about the thought; nothing after a format failure."""
    return None if answer.thought is None else (answer.thought, gold_thought)


def answer_pair(answer: Answer, gold_answer: str, options: RewardOptions) -> tuple[str, str] | None:
    """What the judge is asked about the answer; nothing where the gold is a marker."""
    if gold_answer in grammar.MARKERS:
        return None
    if options.response_needs_format and not answer.has_format:
        return None
    return (answer.answer, gold_answer)


def ask(judge: Judge | None, pairs: Sequence[tuple[str, str] | None]) -> list[Score]:
    """Asks the judge once about all pairs, each distinct pair once; None where there is no pair."""
    distinct = list(dict.fromkeys(pair for pair in pairs if pair is not None))
    if not distinct:
        return [None] * len(pairs)
    assert judge is not None, "bind a judge: functools.partial(reward, judge=SimilarityJudge())"
    scores = judge.score(distinct)
    assert len(scores) == len(distinct), f"{judge.name} scored {len(scores)} of {len(distinct)}"
    known: dict[tuple[str, str] | None, Score] = dict(zip(distinct, scores, strict=True))
    return [known.get(pair) for pair in pairs]


def reward_parts(
    completions: Sequence[Any],
    history_thoughts: Sequence[Sequence[str]],
    gold_thought: Sequence[str],
    gold_answer: Sequence[str],
    kind: Sequence[Kind],
    count_length: CountLength,
    judge: Judge | None,
    options: RewardOptions,
    names: Collection[str] | None = None,
) -> dict[str, list[Reward]]:
    """The rewards of a batch by name; the judge is asked once, and only for what they need.

    Args:
        completions: strings or lists of messages; the columns stand beside them, entry by entry.
        names: the parts to compute; None takes all five, without thinking the response alone. A
            column that none of them reads may be empty.

    Returns:
        Lists in the order of `completions`; None where a reward is unscored.
    """
    if names is None:
        names = PART_NAMES if options.with_thought else ("response",)
    answers = [
        read_completion(completion, of_kind, count_length, options)
        for completion, of_kind in zip(completions, kind, strict=True)
    ]
    pairs: list[tuple[str, str] | None] = [None] * (2 * len(answers))
    for i, answer in enumerate(answers):
        if "semantic" in names:
            pairs[2 * i] = thought_pair(answer, gold_thought[i])
        if "response" in names:
            pairs[2 * i + 1] = answer_pair(answer, gold_answer[i], options)
    scores = ask(judge, pairs)
    part_of: dict[str, Callable[[int, Answer], Reward]] = {
        "format": lambda i, answer: format_part(answer),
        "length": lambda i, answer: length_part(answer, count_length, options),
        "history": lambda i, answer: history_part(answer, history_thoughts[i]),
        "semantic": lambda i, answer: semantic_part(answer, gold_thought[i], scores[2 * i]),
        "response": lambda i, answer: response_part(
            answer, gold_answer[i], scores[2 * i + 1], count_length, options
        ),
    }
    return {name: [part_of[name](i, a) for i, a in enumerate(answers)] for name in names}


def needed_parts(weights: RewardWeights, options: RewardOptions) -> tuple[str, ...]:
    """The parts of weight above 0; without thinking, the response at most."""
    names = PART_NAMES if options.with_thought else ("response",)
    return tuple(name for name in names if getattr(weights, name) != 0)


def sum_parts(parts: dict[str, list[Reward]], weights: RewardWeights) -> list[Reward]:
    """The weighted sum of a batch (eq. 6 and 9); None where a part of weight above 0 is None."""
    num_rows = len(next(iter(parts.values()), []))
    totals: list[Reward] = [0.0] * num_rows
    for name, values in parts.items():
        weight = getattr(weights, name)
        if weight != 0:
            totals = [
                None if total is None or value is None else total + weight * value
                for total, value in zip(totals, values, strict=True)
            ]
    return totals
