"""A Qwen3-VL that watches streams: the KV cache is kept, the history is the model's own answers.

Each stream has a cache of its own, and per frame only what is new goes through the model: the end
of the last answer, the user turn with its image, then the tokens of the answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import DynamicCache

from proact_train.core.errors import RunError
from proact_train.core.types import Stream
from proact_train.model.conversation import decode_answer, encode_turn, end_of_turn_id
from proact_train.model.load import forbidden_token_ids, load_model, load_processor
from proact_train.stream.prompt import build_messages

from ..recipe import EvalRecipe


@dataclass
class _Seat:
    """One stream of the batch.

    Attributes:
        next_position: m-rope position of the next token.
        unfed: tokens of the history that are not in the cache yet.
    """

    stream: Stream
    cache: DynamicCache
    generator: torch.Generator
    next_frame: int = 0
    next_position: int = 0
    unfed: list[int] = field(default_factory=list)


class SessionModel:
    """A loaded model and its processor; `open` begins a batch of streams."""

    needs_frames = True

    def __init__(self, name: str, model: Any, processor: Any, recipe: EvalRecipe):
        self.name, self.model, self.processor, self.recipe = name, model, processor, recipe
        self.forbidden = torch.tensor(forbidden_token_ids(processor), device=model.device)
        self.end_id = end_of_turn_id(processor)

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
        return cls(name, model.eval(), load_processor(path, recipe.max_pixels), recipe)

    def open(self, streams: Sequence[Stream]) -> SessionWatch:
        return SessionWatch(self, streams)


class SessionWatch:
    """A batch of streams being watched. See `watcher.Watch`."""

    def __init__(self, owner: SessionModel, streams: Sequence[Stream]):
        self.owner = owner
        self.seats = [
            _Seat(stream, DynamicCache(), _generator(owner, stream)) for stream in streams
        ]

    @torch.inference_mode()
    def step(self, active: Sequence[int], images: Sequence[Image.Image]) -> list[str]:
        return [
            self._answer(self.seats[idx], image) for idx, image in zip(active, images, strict=True)
        ]

    def _answer(self, seat: _Seat, image: Image.Image) -> str:
        recipe, end_id = self.owner.recipe, self.owner.end_id
        logits = self._feed_frame(seat, image)
        answer: list[int] = []
        while len(answer) < recipe.max_turn_tokens:
            token_id = self._choose(logits, seat.generator)
            answer.append(token_id)
            if token_id == end_id:
                break
            if len(answer) < recipe.max_turn_tokens:
                logits = self._feed_token(seat, token_id)
        # The last token was never fed; an answer cut at the limit is closed.
        seat.unfed = answer[-1:] if answer[-1] == end_id else [answer[-1], end_id]
        return decode_answer(self.owner.processor, answer)

    def _feed_frame(self, seat: _Seat, image: Image.Image) -> torch.Tensor:
        """Runs what is new up to this frame's assistant header; returns the last logits."""
        with_thought, frame = self.owner.recipe.with_thought, seat.next_frame
        is_first = frame == 0
        frames, answers = ([0], []) if is_first else ([frame - 1, frame], [""])
        messages = build_messages(seat.stream, frames, answers, with_thought)
        new = messages if is_first else messages[-1:]
        piece = encode_turn(self.owner.processor, new, [image], is_first, seat.stream.id)
        model = self.owner.model
        unfed = torch.tensor(seat.unfed, dtype=torch.long)
        input_ids = torch.cat([unfed, piece.input_ids])[None].to(model.device)
        types = torch.cat([torch.zeros_like(unfed), piece.mm_token_type_ids])[None]
        types, grid = types.to(model.device), piece.image_grid_thw.to(model.device)
        # Positions of a piece are those of the piece alone, moved behind what stands before it.
        positions, _ = model.model.get_rope_index(input_ids, types, image_grid_thw=grid)
        positions = positions + seat.next_position
        output = model(
            input_ids=input_ids,
            mm_token_type_ids=types,
            pixel_values=piece.pixel_values.to(model.device, model.dtype),
            image_grid_thw=grid,
            position_ids=positions,
            cache=seat.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        seat.next_position = int(positions.max()) + 1
        seat.next_frame += 1
        return output.logits[0, -1]

    def _feed_token(self, seat: _Seat, token_id: int) -> torch.Tensor:
        model = self.owner.model
        position = torch.full((3, 1, 1), seat.next_position, device=model.device)
        output = model(
            input_ids=torch.tensor([[token_id]], device=model.device),
            position_ids=position,
            cache=seat.cache,
            use_cache=True,
        )
        seat.next_position += 1
        return output.logits[0, -1]

    def _choose(self, logits: torch.Tensor, generator: torch.Generator) -> int:
        """The next token: the likeliest at temperature 0, else sampled; never a vision token."""
        logits = logits.float().index_fill(0, self.owner.forbidden, float("-inf"))
        temperature, top_p = self.owner.recipe.temperature, self.owner.recipe.top_p
        if temperature == 0:
            return int(logits.argmax())
        probabilities, order = (logits / temperature).softmax(-1).sort(descending=True)
        if top_p < 1:
            probabilities[probabilities.cumsum(-1) - probabilities >= top_p] = 0
        return int(order[torch.multinomial(probabilities, 1, generator=generator)])


def _generator(owner: SessionModel, stream: Stream) -> torch.Generator:
    """Seeded by recipe and stream, so that neither batches nor a resume change what is sampled."""
    seed = zlib.crc32(f"{owner.recipe.seed}/{stream.id}".encode())
    return torch.Generator(owner.model.device).manual_seed(seed)


def _merge(model: Any, adapter: str) -> Any:
    from peft import PeftModel

    if not (Path(adapter) / "adapter_config.json").is_file():
        raise RunError(
            adapter, "no adapter_config.json", "a LoRA adapter's folder", "Check --adapter."
        )
    return PeftModel.from_pretrained(model, adapter).merge_and_unload()  # type: ignore
