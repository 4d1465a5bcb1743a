"""Which frames of a stream hit, miss or alarm falsely, as EgoPro's protocol counts them.

Event streams are judged frame by frame. In intent streams an interval wants one reply: the matched
one is the hit, any other reply is a false alarm, and an interval without one is missed. An answer
that broke the grammar misses inside gold and is a false alarm outside (`invalid: wrong`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eval.metrics.intent import score_intent
from eval.metrics.segments import interval_masks
from eval.report import Timeline

from ..core.types import Stream
from ..page.table import count
from ..page.timeline import Outcome
from ..stream.timeline import first_scored_frame


@dataclass(frozen=True)
class Outcomes:
    """The outcome of every frame and one line that sums them up."""

    frames: tuple[Outcome, ...]
    summary: str


def judge(stream: Stream, timeline: Timeline) -> Outcomes:
    """Judges a model's answers; frames before the first query are not scored.

    Args:
        timeline: of the same stream; a frame without a turn makes the stream unscored.
    """
    if any(frame.action is None for frame in timeline.frames):
        return Outcomes(("unscored",) * stream.num_frames, "not scored: frames without an answer")
    first = first_scored_frame(stream)
    masks = interval_masks(stream.intervals, stream.num_frames, stream.fps)
    actions = [frame.action for frame in timeline.frames]
    invalid = np.array([action == "invalid" for action in actions])
    if stream.kind == "event":
        return _judge_event(masks, np.array([a == "alert" for a in actions]), invalid, first)
    return _judge_intent(masks, np.array([a == "reply" for a in actions]), invalid, first)


def _judge_event(
    masks: np.ndarray, alerted: np.ndarray, invalid: np.ndarray, first: int
) -> Outcomes:
    gold = np.logical_or.reduce(masks, axis=0)
    frames: list[Outcome] = []
    for idx in range(len(gold)):
        if idx < first:
            frames.append("unscored")
        elif gold[idx]:
            frames.append("hit" if alerted[idx] else "miss")
        else:
            frames.append("false_alarm" if alerted[idx] or invalid[idx] else "quiet")
    num_gold = frames.count("hit") + frames.count("miss")
    hits = f"{frames.count('hit')} of {count(num_gold, 'gold frame')} hit"
    return Outcomes(tuple(frames), f"{hits}, {count(frames.count('false_alarm'), 'false alarm')}")


def _judge_intent(
    masks: np.ndarray, replied: np.ndarray, invalid: np.ndarray, first: int
) -> Outcomes:
    # Intervals that end before the first scored frame are not scored either.
    wanted = [mask for mask in masks if mask[first:].any() or not mask.any()]
    kept = np.array(wanted, dtype=bool).reshape(len(wanted), masks.shape[1])[:, first:]
    matched = score_intent(kept, replied[first:], invalid[first:]).matched
    hits = {first + frame for frame, _ in matched}
    missed = np.delete(kept, [interval for _, interval in matched], axis=0)
    is_missed = np.concatenate([np.zeros(first, dtype=bool), np.logical_or.reduce(missed, axis=0)])
    gold = np.concatenate([np.zeros(first, dtype=bool), np.logical_or.reduce(kept, axis=0)])
    frames: list[Outcome] = []
    for idx in range(len(replied)):
        if idx < first:
            frames.append("unscored")
        elif idx in hits:
            frames.append("hit")
        elif replied[idx] or (invalid[idx] and not gold[idx]):
            frames.append("false_alarm")
        else:
            frames.append("miss" if is_missed[idx] else "quiet")
    summary = f"{len(matched)} of {count(len(kept), 'interval')} hit"
    return Outcomes(
        tuple(frames), f"{summary}, {count(frames.count('false_alarm'), 'false alarm')}"
    )
