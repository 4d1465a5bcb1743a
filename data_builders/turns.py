"""Gold turns of a stream as text and tokens, for the builders of samples and decisions.

Tokens are counted with the policy's own tokenizer file; no model library is needed for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from PIL import Image
from tokenizers import Tokenizer

from proact_train.core.errors import RunError, VideoError
from proact_train.core.types import Message, ParseFailure, Stream
from proact_train.stream.grammar import parse, render
from proact_train.stream.prompt import build_messages
from proact_train.stream.resize import TOKEN_SIDE_PX
from proact_train.stream.store import FrameStore
from proact_train.stream.timeline import gold_answers

from .report import BuildReport, Drop
from .workers import map_on_cores

CountTokens = Callable[[str], int]
# The longest thought that the paper's length reward still pays for (4.2).
MAX_THOUGHT_TOKENS = 22
_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def load_token_counter(folder: Path) -> CountTokens:
    """Counts tokens by `FOLDER/tokenizer.json`. Raises RunError if there is none."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise RunError(
            str(path), "no such file", "the policy's tokenizer", "Pass its model's folder."
        )
    tokenizer = Tokenizer.from_file(str(path))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def cap_thought(thought: str, max_tokens: int, count_tokens: CountTokens) -> str:
    """Cuts words from the end until the thought has at most `max_tokens` tokens."""
    words = thought.split()
    while words and count_tokens(" ".join(words)) > max_tokens:
        words.pop()
    return " ".join(words)


def gold_thoughts(
    stream: Stream, max_tokens: int, count_tokens: CountTokens, report: BuildReport
) -> list[str] | None:
    """The capped gold thought of every frame; None (and a counted drop) if the gold is unusable."""
    thoughts = []
    for frame_idx, answer in enumerate(gold_answers(stream)):
        thought = (stream.thoughts or {}).get(frame_idx)
        if thought is None:
            report.drops.append(
                Drop(stream.id, "a frame without a gold thought", f"frame {frame_idx}")
            )
            return None
        capped = cap_thought(thought, max_tokens, count_tokens)
        if capped != " ".join(thought.split()):
            report.note(f"thoughts cut to {max_tokens} tokens")
        if isinstance(turn := parse(render(capped, answer), stream.kind), ParseFailure):
            report.drops.append(
                Drop(stream.id, f"gold that breaks the grammar: {turn.failure}", f"{frame_idx}")
            )
            return None
        thoughts.append(capped)
    return thoughts


def store_frames(
    streams: Sequence[Stream], store: FrameStore, report: BuildReport, desc: str
) -> Iterator[list[Path] | None]:
    """Stores all frames of each stream; yields their paths, in the order of `streams`.

    None (and a counted drop, no files left) where a video does not decode.
    """
    results = map_on_cores(partial(_store_or_fail, store), streams, desc)
    for stream, result in zip(streams, results, strict=True):
        if isinstance(result, VideoError):
            report.drops.append(Drop(stream.id, "video that does not decode", str(result)))
            yield None
        else:
            yield result


def _store_or_fail(store: FrameStore, stream: Stream) -> list[Path] | VideoError:
    try:
        return store.ensure(stream)
    except VideoError as error:
        shutil.rmtree(store.frame_path(stream.id, 0).parent, ignore_errors=True)
        return error


def count_prompt_tokens(
    messages: Sequence[Message], image_tokens: int, count_tokens: CountTokens
) -> int:
    """Tokens of a conversation in Qwen3-VL's chat form, `image_tokens` for each image."""
    total = 0
    for message in messages:
        parts = [part["text"] if part["type"] == "text" else _IMAGE for part in message["content"]]
        num_images = sum(part["type"] == "image" for part in message["content"])
        total += count_tokens(f"<|im_start|>{message['role']}\n{''.join(parts)}<|im_end|>\n")
        total += num_images * (image_tokens - 1)
    return total


def tokens_per_image(image: Path) -> int:
    """Tokens that the model spends on one stored frame."""
    with Image.open(image) as opened:
        return (opened.width // TOKEN_SIDE_PX) * (opened.height // TOKEN_SIDE_PX)


def first_turn_in_budget(
    stream: Stream,
    answers: Sequence[str],
    last_idx: int,
    with_thought: bool,
    count: Callable[[Sequence[Message]], int],
    max_context_tokens: int,
) -> int:
    """The first turn to keep so that turns up to `last_idx` fit; `last_idx + 1` if none does.

    A query that was spoken in a dropped turn moves to the first kept one, so the count is taken on
    the conversation as it will be written. `count` ascends with the number of turns: bisection.
    """
    low, high = 0, last_idx + 1
    while low < high:
        start = (low + high) // 2
        frames = range(start, last_idx + 1)
        kept = build_messages(stream, frames, answers[start : last_idx + 1], with_thought)
        if count(kept) <= max_context_tokens:
            high = start
        else:
            low = start + 1
    return low
