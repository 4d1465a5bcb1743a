"""A Qwen3-VL that watches streams: the prompt of every frame, put to a `StreamingSession`.

The kept cache, the batch and the sampling are the session's: `proact_train/model/session.py`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from proact_train.core.errors import RunError
from proact_train.core.types import Message, Stream
from proact_train.model.load import load_model, load_processor
from proact_train.model.session import StreamingSession
from proact_train.stream.prompt import build_messages

from ..recipe import EvalRecipe


class SessionModel:
    """A loaded model and its processor; `open` begins a batch of streams."""

    needs_frames = True

    def __init__(self, name: str, model: Any, processor: Any, recipe: EvalRecipe):
        self.name, self.model, self.processor, self.recipe = name, model, processor, recipe

    @classmethod
    def load(cls, path: str, adapter: str | None, recipe: EvalRecipe) -> SessionModel:
        """Loads a model folder (weights, or an adapter that names its base).

        Raises:
            RunError: as `load_model` and `load_processor`, or `adapter` is no adapter's folder.
        """
        device = recipe.device or ("cuda" if torch.cuda.is_available() else "cpu")
        model = load_model(path, recipe.dtype, recipe.attn_implementation, device)
        if adapter is not None:
            model = _merge(model, adapter)
        name = Path(path).as_posix() if adapter is None else f"{path} + {adapter}"
        return cls(name, model, load_processor(path, recipe.max_pixels), recipe)

    def open(self, streams: Sequence[Stream]) -> SessionWatch:
        return SessionWatch(self, streams)


class SessionWatch:
    """A batch of streams being watched. See `watcher.Watch`."""

    def __init__(self, owner: SessionModel, streams: Sequence[Stream]):
        self.streams, self.with_thought = streams, owner.recipe.with_thought
        self.next_frames = [0] * len(streams)
        recipe = owner.recipe
        self.session = StreamingSession(
            owner.model,
            owner.processor,
            len(streams),
            max_turn_tokens=recipe.max_turn_tokens,
            temperature=recipe.temperature,
            top_p=recipe.top_p,
            seeds=[_seed(recipe.seed, stream) for stream in streams],
            names=[stream.id for stream in streams],
        )

    def step(self, active: Sequence[int], images: Sequence[Image.Image]) -> list[str]:
        messages = [self._new_messages(idx) for idx in active]
        answers = self.session.step(active, messages, [[image] for image in images])
        return [answer.raw for answer in answers]

    def _new_messages(self, idx: int) -> list[Message]:
        """What the prompt gains at a stream's next frame."""
        frame = self.next_frames[idx]
        self.next_frames[idx] += 1
        if frame == 0:
            return build_messages(self.streams[idx], [0], [], self.with_thought)
        return build_messages(self.streams[idx], [frame - 1, frame], [""], self.with_thought)[-1:]


def _seed(seed: int, stream: Stream) -> int:
    """By recipe and stream, so that neither batches nor a resume change what is sampled."""
    return zlib.crc32(f"{seed}/{stream.id}".encode())


def _merge(model: Any, adapter: str) -> Any:
    from peft import PeftModel

    if not (Path(adapter) / "adapter_config.json").is_file():
        raise RunError(
            adapter, "no adapter_config.json", "a LoRA adapter's folder", "Check --adapter."
        )
    return PeftModel.from_pretrained(model, adapter).merge_and_unload()  # type: ignore
