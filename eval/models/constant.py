"""Baselines that never look: always silent, and always speaking."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from proact_train.core.types import Stream
from proact_train.stream.grammar import ATTENTION, SILENCE, render

ALWAYS_SILENT, ALWAYS_SPEAK = "always-silent", "always-speak"
CONSTANT_MODELS = (ALWAYS_SILENT, ALWAYS_SPEAK)
SENTENCE = "Let me help you with this."
THOUGHT = "I always answer the same."


class ConstantModel:
    """Gives every frame the same answer.

    Args:
        name: `always-silent`, or `always-speak` (an alert in event streams, a fixed sentence in
            intent streams).
        with_thought: whether a fixed thought leads.
    """

    needs_frames = False

    def __init__(self, name: str, with_thought: bool = True):
        assert name in CONSTANT_MODELS
        self.name, self.with_thought = name, with_thought

    def open(self, streams: Sequence[Stream]) -> ConstantWatch:
        return ConstantWatch([self._answer(stream) for stream in streams])

    def _answer(self, stream: Stream) -> str:
        spoken = ATTENTION if stream.kind == "event" else SENTENCE
        answer = SILENCE if self.name == ALWAYS_SILENT else spoken
        return render(THOUGHT if self.with_thought else None, answer)


class ConstantWatch:
    """One text a stream, whatever comes."""

    def __init__(self, answers: list[str]):
        self.answers = answers

    def step(self, active: Sequence[int], images: Sequence[Image.Image]) -> list[str]:
        return [self.answers[idx] for idx in active]
