"""The nouns of a step: a completion as sampled and a row as scored. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..core.types import Decision
from ..stream.grammar import ATTENTION, SILENCE

AnswerClass = Literal["silence", "alert", "reply"]
ANSWER_CLASSES: tuple[AnswerClass, ...] = ("silence", "alert", "reply")


@dataclass(frozen=True)
class Completion:
    """One sampled answer.

    Attributes:
        token_ids: its `<|im_end|>` included, unless it was truncated.
        sampling_logps: of those tokens under the weights that sampled, at the sampling temperature.
        is_truncated: whether `max_completion_length` ended it.
    """

    token_ids: tuple[int, ...]
    sampling_logps: tuple[float, ...]
    is_truncated: bool

    def __post_init__(self) -> None:
        assert len(self.token_ids) == len(self.sampling_logps) > 0


@dataclass(frozen=True)
class Rewards:
    """What a completion earned, before weights; None is unscored and never 0.

    Attributes:
        parts: by reward name (`format`, `length`, `history`, `semantic`, `response`).
        content: the part of `response` that compares the answer with the gold one.
        total: the weighted sum; None as soon as a part that it needs is None.
    """

    parts: dict[str, float | None]
    content: float | None
    total: float | None

    @property
    def content_and_semantic(self) -> float | None:
        """What is about meaning, not about form: content plus, with thoughts, semantic."""
        if "semantic" not in self.parts:
            return self.content
        semantic = self.parts["semantic"]
        return None if self.content is None or semantic is None else self.content + semantic


@dataclass(frozen=True)
class Row:
    """One completion of one decision with all that metrics and tables need."""

    decision_id: str
    kind: str
    domain: str
    gold_answer: str
    text: str
    action: str
    num_tokens: int
    num_thought_tokens: int
    is_truncated: bool
    rewards: Rewards
    advantage: float = field(default=0.0)

    @property
    def answer_class(self) -> AnswerClass:
        return answer_class(self.gold_answer)


def answer_class(gold_answer: str) -> AnswerClass:
    """The class of a decision, by its gold answer."""
    if gold_answer == SILENCE:
        return "silence"
    return "alert" if gold_answer == ATTENTION else "reply"


def decision_class(decision: Decision) -> AnswerClass:
    return answer_class(decision.gold_answer)
