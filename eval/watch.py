"""Watching a batch of streams to their ends: frames go in one at a time, turns come out.

A stream that fails is given up, counted and reported; the others go on. Files, resume and progress:
`predict.py` and `partial.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from proact_train.core.errors import ProActError
from proact_train.core.types import PredictedTurn, Prediction, Stream
from proact_train.stream.store import FrameStore, read_frames

from .models.watcher import FrameModel
from .turns import prompt_id, to_turn, told

FramesOf = Callable[[Stream], Iterator[Image.Image]]


@dataclass(frozen=True)
class StreamFailure:
    """A stream without a prediction, and why."""

    stream_id: str
    reason: str


def frame_source(max_pixels: int, store: str | Path | None = None) -> FramesOf:
    """How frames are had: decoded from the video as they are needed, or from a frame store."""
    if store is None:
        return lambda stream: read_frames(stream, max_pixels)
    frames = FrameStore(Path(store), max_pixels)
    return lambda stream: (_read_jpeg(path) for path in frames.ensure(stream))


def watch_streams(
    model: FrameModel,
    streams: Sequence[Stream],
    with_thought: bool,
    frames_of: FramesOf,
    on_frames: Callable[[int], object] = lambda num_frames: None,
) -> Iterator[Prediction | StreamFailure]:
    """Watches a batch; what the model cannot do for the batch is tried again stream by stream.

    Args:
        on_frames: told how many frames were answered just now.

    Yields:
        The prediction or the failure of every stream, as soon as it is known.
    """
    open_ids = {stream.id for stream in streams}
    try:
        for result in _watch_batch(model, streams, with_thought, frames_of, on_frames):
            open_ids.discard(result.stream_id)
            yield result
        return
    except Exception as error:  # counted and reported, one stream at a time
        reason = f"{type(error).__name__}: {error}"
    left = [stream for stream in streams if stream.id in open_ids]
    if len(streams) == 1:
        yield from (StreamFailure(stream.id, reason) for stream in left)
        return
    for stream in left:
        yield from watch_streams(model, [stream], with_thought, frames_of, on_frames)


def _watch_batch(
    model: FrameModel,
    streams: Sequence[Stream],
    with_thought: bool,
    frames_of: FramesOf,
    on_frames: Callable[[int], object],
) -> Iterator[Prediction | StreamFailure]:
    watch = model.open([told(stream) for stream in streams])
    readers = [frames_of(stream) for stream in streams] if model.needs_frames else []
    turns: list[list[PredictedTurn]] = [[] for _ in streams]
    active = list(range(len(streams)))
    frame_idx = 0
    while active:
        images: list[Image.Image] = []
        for idx in list(active) if readers else ():
            try:
                images.append(next(readers[idx]))
            except (ProActError, OSError, StopIteration) as error:
                active.remove(idx)
                reason = str(error) or f"no frame {frame_idx}"
                yield StreamFailure(streams[idx].id, reason)
        if not active:
            return
        started_s = time.perf_counter()
        answers = watch.step(active, images)
        latency_s = time.perf_counter() - started_s
        for idx, raw in zip(active, answers, strict=True):
            stream = streams[idx]
            t_s = stream.frame_time_s(frame_idx)
            turns[idx].append(to_turn(t_s, raw, stream.kind, with_thought, latency_s))
        on_frames(len(active))
        frame_idx += 1
        for idx in [idx for idx in active if streams[idx].num_frames == frame_idx]:
            active.remove(idx)
            prompt = prompt_id(streams[idx].kind, with_thought)
            yield Prediction(streams[idx].id, model.name, prompt, tuple(turns[idx]))


def _read_jpeg(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")
