"""Gold on the frame grid: which frames an interval owns and what the right answer of a frame is."""

from __future__ import annotations

from ..core.types import TIME_TOLERANCE_S, Interval, Stream
from .grammar import ATTENTION, SILENCE


def interval_frames(interval: Interval, fps: float, num_frames: int) -> list[int]:
    """Indices of the frames inside the half-open interval, in order; possibly none."""
    return [idx for idx in range(num_frames) if interval.contains(idx / fps)]


def gold_answers(stream: Stream) -> list[str]:
    """The gold answer of every frame.

    Events: `<Attention>` on every frame of an interval. Intents: the reply on the first frame of
    each interval, because one speaks once per interval; `<Silence>` elsewhere.
    """
    answers = [SILENCE] * stream.num_frames
    for interval in stream.intervals:
        frames = interval_frames(interval, stream.fps, stream.num_frames)
        if stream.kind == "event":
            for idx in frames:
                answers[idx] = ATTENTION
        elif frames and interval.reply is not None:
            answers[frames[0]] = interval.reply
    return answers


def first_scored_frame(stream: Stream) -> int:
    """The first frame at or after the first query; 0 without queries."""
    if not stream.query:
        return 0
    first_s = min(query.t_s for query in stream.query)
    frames = (
        idx for idx in range(stream.num_frames) if idx / stream.fps >= first_s - TIME_TOLERANCE_S
    )
    return next(frames, stream.num_frames)
