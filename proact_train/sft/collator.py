"""SFT samples -> padded batches with loss weights and answer classes; nothing is truncated.

Tokenizing itself: `model/conversation.py`. The loss that reads the weights: `trainer.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.errors import DataError
from ..core.types import SftSample
from ..model.conversation import Encoded, count_tokens, encode
from ..stream import grammar

# Class of an answer's tokens; 0 stands on everything else, thoughts included.
ANSWER_CLASSES = ("silence", "alert", "reply")
_MIB = 2**20
_NUM_TIMES = 2  # Qwen3-VL's patches hold a still image twice


@dataclass(frozen=True)
class Row:
    """One encoded sample.

    Attributes:
        encoded: tokens, images and loss weights.
        class_ids: int64 per token; 1 + index into ANSWER_CLASSES on an answer's tokens (behind the
            thought, `<|im_end|>` included), 0 elsewhere.
        turn_counts: answers with a loss by class, in the order of ANSWER_CLASSES.
    """

    encoded: Encoded
    class_ids: Int[Tensor, "tokens"]
    turn_counts: Int[Tensor, "3"]


@dataclass
class SftCollator:
    """Encodes samples by index (`{"sample_idx": int}`) and pads them on the right.

    Runs in the data loader's workers. With `cache_mib` above 0 encoded rows are kept, their pixels
    as the bytes they came from (8 times smaller, restored bit by bit).
    """

    processor: Any
    samples: Sequence[SftSample]
    cache_mib: int = 0
    _cache: dict[int, Row] = field(default_factory=dict)
    _cached_bytes: int = 0

    def __call__(self, examples: Sequence[Mapping[str, int]]) -> dict[str, Tensor]:
        rows = [self._row(int(example["sample_idx"])) for example in examples]
        return pad_rows(rows, int(self.processor.tokenizer.pad_token_id))

    def _row(self, sample_idx: int) -> Row:
        row = self._cache.get(sample_idx)
        if row is None:
            row = build_row(self.processor, self.samples[sample_idx])
            packed = _pack_pixels(self.processor, row)
            num_bytes = packed.encoded.pixel_values.nbytes
            if self._cached_bytes + num_bytes <= self.cache_mib * _MIB:
                self._cached_bytes += num_bytes
                self._cache[sample_idx] = packed
            return row
        return _unpack_pixels(self.processor, row)


def build_row(processor: Any, sample: SftSample) -> Row:
    """Encodes a sample and classes its answers.

    Raises:
        DataError: as `encode`.
    """
    where = f"stream {sample.stream_id!r}"
    encoded = encode(processor, sample.messages, sample.images, where)
    close_id = processor.tokenizer.convert_tokens_to_ids(grammar.CLOSE)
    class_ids = torch.zeros_like(encoded.input_ids)
    turn_counts = torch.zeros(len(ANSWER_CLASSES), dtype=torch.long)
    answers = [message for message in sample.messages if message["role"] == "assistant"]
    for span, message in zip(encoded.turns, answers, strict=True):
        class_idx = answer_class("".join(part["text"] for part in message["content"]))
        closes = (encoded.input_ids[span.start : span.end] == close_id).nonzero()
        start = span.start + int(closes[-1]) + 1 if len(closes) else span.start
        class_ids[start : span.end] = 1 + class_idx
        turn_counts[class_idx] += int(encoded.loss_weights[span.start] > 0)
    return Row(encoded, class_ids, turn_counts)


def answer_class(raw: str) -> int:
    """Index into ANSWER_CLASSES of an assistant's raw text."""
    answer = grammar.answer_text(raw)
    return {grammar.SILENCE: 0, grammar.ATTENTION: 1}.get(answer, 2)


def pad_rows(rows: Sequence[Row], pad_token_id: int) -> dict[str, Tensor]:
    """Stacks rows, padded on the right (left padding gives wrong m-rope positions in training).

    Returns:
        The model's inputs, `labels` (-100 where the weight is 0), and for the trainer
        `loss_weights`, `class_ids` (batch, tokens) and `turn_counts` (batch, 3).
    """
    encoded = [row.encoded for row in rows]
    input_ids = _pad([item.input_ids for item in encoded], pad_token_id)
    weights = _pad([item.loss_weights for item in encoded], 0.0)
    batch = {
        "input_ids": input_ids,
        "attention_mask": _pad([torch.ones_like(item.input_ids) for item in encoded], 0),
        "mm_token_type_ids": _pad([item.mm_token_type_ids for item in encoded], 0),
        "labels": input_ids.masked_fill(weights == 0, -100),
        "loss_weights": weights,
        "class_ids": _pad([row.class_ids for row in rows], 0),
        "turn_counts": torch.stack([row.turn_counts for row in rows]),
    }
    if any(len(item.image_grid_thw) for item in encoded):
        batch["pixel_values"] = torch.cat([item.pixel_values for item in encoded])
        batch["image_grid_thw"] = torch.cat([item.image_grid_thw for item in encoded])
    return batch


def check_samples(
    processor: Any, samples: Sequence[SftSample], max_context_tokens: int, with_thought: bool
) -> list[int]:
    """Counts every sample's tokens from texts and image sizes, before anything is trained.

    Returns:
        Tokens of each sample.

    Raises:
        DataError: no samples, a sample longer than the budget, without a supervised answer, or with
            answers of the other prompt mode.
    """
    if not samples:
        raise DataError("train_samples", "no samples", "at least one", "Build them again.")
    lengths = []
    for sample in samples:
        where = f"stream {sample.stream_id!r}"
        _check_answers(where, sample, with_thought)
        num_tokens = count_tokens(processor, sample.messages, sample.images, where)
        if num_tokens > max_context_tokens:
            raise DataError(
                where,
                f"{num_tokens:,} tokens",
                f"at most max_context_tokens, {max_context_tokens:,}",
                "Build with `proact build sft` under this budget (it drops whole turns), lower "
                "max_pixels or raise max_context_tokens; nothing is truncated.",
            )
        lengths.append(num_tokens)
    return lengths


def _check_answers(where: str, sample: SftSample, with_thought: bool) -> None:
    answers = [message for message in sample.messages if message["role"] == "assistant"]
    if not any(message.get("loss_weight", 1.0) != 0 for message in answers):
        raise DataError(where, "no answer with a loss", "at least one", "Build the samples again.")
    for message in answers:
        text = "".join(part["text"] for part in message["content"])
        if text.startswith(grammar.OPEN) != with_thought:
            raise DataError(
                where,
                f"an answer with{'out' if with_thought else ''} a thought, {text[:40]!r}",
                f"answers that fit with_thought: {str(with_thought).lower()}",
                "Set with_thought as the samples were built, or build them again.",
            )


def _pad(rows: Sequence[Tensor], value: float) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=value)


def _levels(processor: Any) -> Float[Tensor, "3 256"]:
    """What the image processor makes of each byte, by channel."""
    mean = torch.tensor(processor.image_processor.image_mean)[:, None] * 255
    std = torch.tensor(processor.image_processor.image_std)[:, None] * 255
    return (torch.arange(256.0)[None] - mean) / std


def _pack_pixels(processor: Any, row: Row) -> Row:
    """Pixels as bytes, if that loses nothing; else the row as it is."""
    pixels = row.encoded.pixel_values
    if not len(pixels):
        return row
    mean = torch.tensor(processor.image_processor.image_mean)[:, None] * 255
    std = torch.tensor(processor.image_processor.image_std)[:, None] * 255
    first = pixels.view(len(pixels), 3, _NUM_TIMES, -1)[:, :, 0]
    levels = (first * std + mean).round().clamp(0, 255).to(torch.uint8)
    packed = replace(row, encoded=replace(row.encoded, pixel_values=levels))
    is_exact = torch.equal(_unpack_pixels(processor, packed).encoded.pixel_values, pixels)
    return packed if is_exact else row


def _unpack_pixels(processor: Any, row: Row) -> Row:
    pixels = row.encoded.pixel_values
    if pixels.dtype != torch.uint8:
        return row
    levels, bytes_ = _levels(processor), pixels.int()
    channels = torch.stack([levels[c][bytes_[:, c]] for c in range(3)], dim=1)
    restored = channels[:, :, None].expand(-1, -1, _NUM_TIMES, -1).reshape(len(pixels), -1)
    return replace(row, encoded=replace(row.encoded, pixel_values=restored))
