"""A batch of streams watched frame by frame, with the KV cache kept.

Each frame costs its own tokens and its answer's. The history is the model's own raw answers;
nothing of a later frame is ever in context. Streams of unequal lengths share one cache: every
stream's tokens lie without gaps from its start on, and a mask hides what is behind its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.errors import RunError
from ..core.types import Message
from .conversation import Encoded, FrameImage, decode_answer, encode_turn, end_of_turn_id
from .load import forbidden_token_ids
from .trunk import unwrap


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        token_ids: as generated; without `<|im_end|>` if the answer was cut (`is_truncated`). In the
            history it is closed either way.
        raw: its text, without `<|im_end|>`.
        logps: log-prob of each token at the sampling temperature (at 1 when greedy).
    """

    token_ids: tuple[int, ...]
    raw: str
    logps: tuple[float, ...]
    is_truncated: bool


class BatchCache:
    """Keys and values `[streams, kv_heads, capacity, head_dim]`, written in place at each stream's
    own end; the capacity doubles when needed."""

    def __init__(self, num_streams: int):
        self.num_streams = num_streams
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        self.places = torch.empty(num_streams, 0, dtype=torch.long)
        self.num_visible = 0

    def set_places(self, places: Int[Tensor, "streams new"]) -> None:
        """Where the next forward pass writes its tokens."""
        self.places, self.num_visible = places, int(places.max()) + 1

    def update(
        self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Writes `[streams, kv_heads, new, head_dim]`; returns views up to the furthest place."""
        rows = torch.arange(self.num_streams, device=key.device)[:, None]
        views = []
        for buffers, new in ((self.keys, key), (self.values, value)):
            held = buffers.get(layer_idx)
            if held is None or held.shape[2] < self.num_visible:
                grown = new.new_zeros(*new.shape[:2], 2 * self.num_visible, new.shape[3])
                if held is not None:
                    grown[:, :, : held.shape[2]] = held
                buffers[layer_idx] = held = grown
            held[rows, :, self.places] = new.transpose(1, 2)
            views.append(held[:, :, : self.num_visible])
        return views[0], views[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.num_visible


class StreamingSession:
    """A model watching `num_streams` streams.

    Args:
        model: in evaluation mode, with SDPA or eager attention (the masks are explicit).
        max_turn_tokens: an answer is cut there and closed with `<|im_end|>`.
        temperature: 0 takes the likeliest token; vision tokens are never taken.
        top_p: nucleus of sampling, among the tokens that may be taken.
        seeds: one for each stream, for sampling; neither batching nor order changes what a stream
            draws.
        max_context_tokens: a stream that would pass it stops with an error; nothing is dropped.
        names: what errors call the streams, such as their ids.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        num_streams: int,
        max_turn_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seeds: Sequence[int] | None = None,
        max_context_tokens: int | None = None,
        names: Sequence[str] | None = None,
    ):
        assert not model.training, "a session needs the model in evaluation mode"
        self.model, self.processor = unwrap(model), processor
        self.max_turn_tokens, self.temperature, self.top_p = max_turn_tokens, temperature, top_p
        self.max_context_tokens = max_context_tokens
        self.names = names or [f"stream {row} of the batch" for row in range(num_streams)]
        self.device = self.model.model.language_model.embed_tokens.weight.device
        self.end_id = end_of_turn_id(processor)
        self.forbidden = torch.tensor(forbidden_token_ids(processor), device=self.device)
        self.cache = BatchCache(num_streams)
        self.token_ids: list[list[int]] = [[] for _ in range(num_streams)]
        self._seen = torch.zeros(num_streams, dtype=torch.long, device=self.device)
        self._position = torch.zeros(num_streams, dtype=torch.long, device=self.device)
        self._unfed: list[list[int]] = [[] for _ in range(num_streams)]
        self._generators = [
            torch.Generator(self.device).manual_seed(seed) for seed in seeds or range(num_streams)
        ]

    @torch.inference_mode()
    def step(
        self,
        active: Sequence[int],
        new_messages: Sequence[Sequence[Message]],
        images: Sequence[Sequence[FrameImage]],
    ) -> list[Answer]:
        """One frame of the active streams; returns their answers.

        Args:
            active: indices of the streams that have a frame now.
            new_messages: for each, what is new: the system and the user message at its first
                frame, then one user message (`stream/prompt.py`).
            images: for each, the images of these messages.

        Raises:
            RunError: a stream would pass `max_context_tokens`.
        """
        pieces = [
            encode_turn(self.processor, messages, frames, not self.token_ids[row], self.names[row])
            for row, messages, frames in zip(active, new_messages, images, strict=True)
        ]
        logits = self._feed_pieces(active, pieces)
        rows = list(active)
        said: dict[int, list[int]] = {row: [] for row in rows}
        logps: dict[int, list[float]] = {row: [] for row in rows}
        for step in range(self.max_turn_tokens):
            going = []
            for row, (token, logp) in zip(rows, self._choose(logits, rows), strict=True):
                said[row].append(token)
                logps[row].append(logp)
                if token != self.end_id:
                    going.append(row)
            rows = going
            if not rows or step + 1 == self.max_turn_tokens:
                break
            logits = self._feed_tokens(rows, [said[row][-1] for row in rows])
        return [self._close(row, said[row], logps[row]) for row in active]

    def _close(self, row: int, token_ids: list[int], logps: list[float]) -> Answer:
        is_truncated = token_ids[-1] != self.end_id
        # The last token was not fed yet: it leads the next frame's piece.
        self._unfed[row] = [token_ids[-1], self.end_id] if is_truncated else [self.end_id]
        self.token_ids[row] += [*token_ids, self.end_id] if is_truncated else token_ids
        raw = decode_answer(self.processor, token_ids)
        return Answer(tuple(token_ids), raw, tuple(logps), is_truncated)

    def _feed_pieces(
        self, active: Sequence[int], pieces: Sequence[Encoded]
    ) -> Float[Tensor, "active vocabulary"]:
        """Prefills what is new up to the assistants' headers."""
        new_ids, new_positions = [], []
        for row, piece in zip(active, pieces, strict=True):
            unfed = torch.tensor(self._unfed[row], dtype=torch.long)
            ids = torch.cat([unfed, piece.input_ids])
            types = torch.cat([torch.zeros_like(unfed), piece.mm_token_type_ids])
            grid = piece.image_grid_thw if len(piece.image_grid_thw) else None
            positions, _ = self.model.model.get_rope_index(ids[None], types[None], grid)
            self._check_context(row, len(ids))
            self.token_ids[row] += piece.input_ids.tolist()
            new_ids.append(ids)
            # The positions of a piece are its own, moved behind what stands before it.
            new_positions.append(positions[:, 0].to(self.device) + self._position[row])
        order = sorted(range(len(active)), key=lambda idx: active[idx])
        vision = {}
        if any(len(piece.image_grid_thw) for piece in pieces):
            # Features are handed out in the order of the batch's rows.
            pixels = torch.cat([pieces[idx].pixel_values for idx in order])
            vision["pixel_values"] = pixels.to(self.device, self.model.dtype)
            grids = torch.cat([pieces[idx].image_grid_thw for idx in order])
            vision["image_grid_thw"] = grids.to(self.device)
        return self._forward(active, new_ids, new_positions, vision)

    def _feed_tokens(
        self, rows: Sequence[int], tokens: Sequence[int]
    ) -> Float[Tensor, "active vocabulary"]:
        for row in rows:
            self._check_context(row, 1)
        positions = [self._position[row].expand(3, 1) for row in rows]
        return self._forward(rows, [torch.tensor([token]) for token in tokens], positions, {})

    def _forward(
        self,
        rows: Sequence[int],
        new_ids: Sequence[Tensor],
        new_positions: Sequence[Tensor],
        vision: dict[str, Tensor],
    ) -> Float[Tensor, "active vocabulary"]:
        """One pass over all streams, new tokens right-padded; idle streams take part as padding.

        Padding is written behind a stream's end, where the mask hides it and the stream's next
        tokens replace it.
        """
        num_streams, longest = len(self.token_ids), max(map(len, new_ids))
        ids = torch.zeros(num_streams, longest, dtype=torch.long, device=self.device)
        positions = torch.zeros(3, num_streams, longest, dtype=torch.long, device=self.device)
        for row, row_ids, row_positions in zip(rows, new_ids, new_positions, strict=True):
            ids[row, : len(row_ids)] = row_ids.to(self.device)
            positions[:, row, : len(row_ids)] = row_positions
        places = self._seen[:, None] + torch.arange(longest, device=self.device)
        self.cache.set_places(places)
        keys = torch.arange(self.cache.num_visible, device=self.device)
        mask = (keys <= places[..., None])[:, None]
        hidden = self.model.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            cache=self.cache,
            use_cache=True,
            **vision,
        ).last_hidden_state
        at = torch.tensor(list(rows), device=self.device)
        num_new = torch.tensor([len(row_ids) for row_ids in new_ids], device=self.device)
        self._seen[at] += num_new
        self._position[at] = torch.stack([one.max() + 1 for one in new_positions])
        return self.model.lm_head(hidden[at, num_new - 1])

    def _choose(
        self, logits: Float[Tensor, "active vocabulary"], rows: Sequence[int]
    ) -> list[tuple[int, float]]:
        log_probabilities = (logits.float() / (self.temperature or 1.0)).log_softmax(-1)
        allowed = log_probabilities.index_fill(1, self.forbidden, float("-inf"))
        if self.temperature == 0:
            chosen = allowed.argmax(-1)
        else:
            probabilities, order = allowed.softmax(-1).sort(-1, descending=True)
            cut = probabilities.cumsum(-1) - probabilities >= self.top_p
            probabilities = probabilities.masked_fill(cut & (self.top_p < 1), 0.0)
            picks = [
                torch.multinomial(probabilities[idx], 1, generator=self._generators[row])
                for idx, row in enumerate(rows)
            ]
            chosen = order.gather(1, torch.stack(picks))[:, 0]
        logps = log_probabilities.gather(1, chosen[:, None])[:, 0]
        return list(zip(chosen.tolist(), logps.tolist(), strict=True))

    def _check_context(self, row: int, num_new: int) -> None:
        num_tokens = int(self._seen[row]) + num_new
        if self.max_context_tokens is not None and num_tokens > self.max_context_tokens:
            raise RunError(
                self.names[row],
                f"{num_tokens} tokens of context",
                f"at most max_context_tokens, {self.max_context_tokens}",
                "Raise max_context_tokens, lower max_pixels, or watch a shorter stream.",
            )
