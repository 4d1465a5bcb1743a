"""The nouns of the project, as frozen dataclasses. Reading and writing them: `contracts.py`.

Times are float seconds from stream start. Frame `k` is what is on screen at `k / fps`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["event", "intent"]
Action = Literal["silence", "alert", "reply", "invalid"]
Failure = Literal[
    "missing_thought",
    "two_thoughts",
    "text_before_thought",
    "unclosed_thought",
    "marker_in_thought",
    "missing_answer",
    "illegal_answer",
]

KINDS: tuple[Kind, ...] = ("event", "intent")
ACTIONS: tuple[Action, ...] = ("silence", "alert", "reply", "invalid")
EVENT_DOMAINS = ("object", "action")
INTENT_DOMAINS = (
    "cooking",
    "dailylife",
    "driving",
    "entertainment",
    "navigation",
    "art",
    "shopping",
    "sports",
    "travel",
    "working",
)
# Floating-point slack of every comparison of a frame time with an interval edge.
TIME_TOLERANCE_S = 1e-6

Message = dict[str, Any]


@dataclass(frozen=True)
class Video:
    """A video file (`path` absolute once loaded) and its length."""

    path: str
    duration_s: float


@dataclass(frozen=True)
class Source:
    """Where a stream came from."""

    dataset: str
    split: str
    licence: str


@dataclass(frozen=True)
class Query:
    """What the user says at `t_s`, such as "Alert me when …"."""

    t_s: float
    text: str


@dataclass(frozen=True)
class Interval:
    """A half-open gold interval `[start_s, end_s)`.

    Attributes:
        reply: what to say inside it (intent), None for events.
        label: a service type or the like.
        source_interval: the benchmark's own closed numbers.
        related: the span that the benchmark relates to the interval.
    """

    start_s: float
    end_s: float
    reply: str | None = None
    label: str | None = None
    source_interval: tuple[float, float] | None = None
    related: tuple[float, float] | None = None

    def contains(self, t_s: float) -> bool:
        return self.start_s - TIME_TOLERANCE_S <= t_s < self.end_s - TIME_TOLERANCE_S


@dataclass(frozen=True)
class Stream:
    """One video watched at `fps`, with what the assistant is told and the gold answers.

    `thoughts` maps a frame index to its gold thought; None when the source has none.
    """

    id: str
    video: Video
    kind: Kind
    domain: str
    source: Source
    fps: float = 1.0
    query: tuple[Query, ...] = ()
    profile: dict[str, Any] | None = None
    memory: tuple[str, ...] = ()
    intervals: tuple[Interval, ...] = ()
    thoughts: dict[int, str] | None = None

    @property
    def num_frames(self) -> int:
        return num_frames(self.video.duration_s, self.fps)

    def frame_time_s(self, frame_idx: int) -> float:
        return frame_idx / self.fps


@dataclass(frozen=True)
class Turn:
    """A parsed answer. `reply` is the sentence of a `reply`, None for the markers."""

    thought: str | None
    action: Action
    reply: str | None
    answer: str


@dataclass(frozen=True)
class ParseFailure:
    """An answer that broke the grammar; `answer` is the text that the response reward sees."""

    failure: Failure
    answer: str


@dataclass(frozen=True)
class SftSample:
    """A whole stream to imitate; `loss_weight` stands in each assistant message (1 if absent)."""

    stream_id: str
    messages: list[Message]
    images: list[str]


@dataclass(frozen=True)
class Decision:
    """One turn of a stream picked for RL.

    `prompt` ends with the user turn of frame `turn_idx`; its assistant turns are the gold history.
    """

    stream_id: str
    decision_id: str
    turn_idx: int
    prompt: list[Message]
    images: list[str]
    history_thoughts: list[str]
    gold_thought: str
    gold_answer: str
    kind: Kind
    domain: str


@dataclass(frozen=True)
class PredictedTurn:
    """What a model answered at `t_s`; `raw` is its text as generated."""

    t_s: float
    raw: str
    thought: str | None
    action: Action
    failure: str | None = None
    reply: str | None = None
    label: str | None = None
    calls: list[dict[str, Any]] | None = None
    latency_s: float | None = None


@dataclass(frozen=True)
class Prediction:
    """All turns of one stream under one prompt."""

    stream_id: str
    model: str
    prompt: str
    turns: tuple[PredictedTurn, ...] = field(default_factory=tuple)


def num_frames(duration_s: float, fps: float) -> int:
    """Frames of a stream: `ceil(duration_s * fps)`, at least one."""
    return max(1, math.ceil(duration_s * fps - TIME_TOLERANCE_S))
