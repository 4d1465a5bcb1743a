"""The interface of whatever answers frames. What implements it: `constant.py`, `session.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from PIL import Image

from proact_train.core.types import Stream


class Watch(Protocol):
    """A batch of streams being watched; frame k of every stream comes before any frame k + 1."""

    def step(self, active: Sequence[int], images: Sequence[Image.Image]) -> list[str]:
        """Answers the next frame of some streams of the batch.

        Args:
            active: ascending positions in the batch; a stream that once was left out has ended or
                failed and never comes back.
            images: the next frame of each active stream; empty if the model needs no frames.

        Returns:
            The raw text of each active stream's answer.
        """
        ...


class FrameModel(Protocol):
    """Answers streams frame by frame.

    Attributes:
        name: stands in prediction files.
        needs_frames: False if it never looks (frames are then not decoded).
    """

    name: str
    needs_frames: bool

    def open(self, streams: Sequence[Stream]) -> Watch:
        """Begins to watch a batch of streams, all without their gold."""
        ...
