"""Metrics of one intent stream: replies matched with gold intervals (paper D.1.2 and D.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from .segments import f1_score, hit_runs, rate


@dataclass(frozen=True)
class IntentScores:
    """Rates of one stream, each in [0, 1]; a rate without a denominator is 0.

    Attributes:
        miou: mean IoU of the matched pairs; None without one (the protocol decides: 0 or left out).
        matched: (frame, interval) index pairs of the assignment, by frame.
    """

    precision: float
    recall: float
    f1: float
    gha: float
    miou: float | None
    matched: tuple[tuple[int, int], ...]


def match_replies(masks: np.ndarray, reply_frames: np.ndarray) -> list[tuple[int, int, float]]:
    """Assigns replies to intervals so that the total IoU is largest; pairs of IoU 0 are dropped.

    Every reply is one predicted segment of one frame, so its IoU with an interval that owns the
    frame is 1 / (frames of the interval). That weight depends on the interval alone, therefore all
    best assignments match equally many pairs.

    Args:
        masks: (num_intervals, num_frames) frames that each interval owns.
        reply_frames: (num_replies,) frame indices.

    Returns:
        (reply frame, interval index, IoU) of each pair.
    """
    num_owned = np.maximum(masks.sum(axis=1), 1)
    iou = (masks[:, reply_frames] / num_owned[:, None]).T
    rows, columns = linear_sum_assignment(iou, maximize=True)
    return [
        (int(reply_frames[row]), int(column), float(iou[row, column]))
        for row, column in zip(rows, columns, strict=True)
        if iou[row, column] > 0
    ]


def score_intent(
    masks: np.ndarray, replied: np.ndarray, is_invalid: np.ndarray | None = None
) -> IntentScores:
    """Scores the replies of one stream. Intervals stay separate even where they touch or overlap.

    GHA counts gold intervals (hit by one reply inside) and the silent runs between them (hit by one
    silence), as in event streams.

    Args:
        masks: (num_intervals, num_frames) frames that each interval owns.
        replied: (num_frames,) booleans, True for a reply.
        is_invalid: (num_frames,) booleans. Inside an interval such an answer is no reply; outside
            all of them it is a reply too many. It never hits.
    """
    masks, replied = np.asarray(masks, dtype=bool), np.asarray(replied, dtype=bool)
    gold = np.logical_or.reduce(masks, axis=0)
    if is_invalid is not None:
        replied = np.where(is_invalid, ~gold, replied)
    pairs = match_replies(masks, np.flatnonzero(replied))
    precision = rate(len(pairs), int(np.count_nonzero(replied)))
    recall = rate(len(pairs), len(masks))
    labels, is_hit = hit_runs(gold, gold == replied)
    hits = np.concatenate([is_hit[~labels], (masks & replied).any(axis=1)])
    return IntentScores(
        precision,
        recall,
        f1_score(precision, recall),
        rate(int(np.count_nonzero(hits)), len(hits)),
        sum(iou for _, _, iou in pairs) / len(pairs) if pairs else None,
        tuple((frame, interval) for frame, interval, _ in pairs),
    )
