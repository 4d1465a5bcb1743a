"""Frame labels and their runs: what the event and the intent metrics share.

Nothing here knows streams or predictions; labels are boolean arrays, one value a frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proact_train.core.types import TIME_TOLERANCE_S, Interval


def interval_masks(intervals: Sequence[Interval], num_frames: int, fps: float) -> np.ndarray:
    """Which frames each half-open interval owns: (num_intervals, num_frames) booleans.

    Intervals are taken as they stand: one that owns no frame keeps an empty row.
    """
    times_s = np.arange(num_frames) / fps
    start_s = np.array([interval.start_s for interval in intervals]).reshape(-1, 1)
    end_s = np.array([interval.end_s for interval in intervals]).reshape(-1, 1)
    return (start_s - TIME_TOLERANCE_S <= times_s) & (times_s < end_s - TIME_TOLERANCE_S)


def run_starts(labels: np.ndarray) -> np.ndarray:
    """First frame of every maximal run of equal labels; empty for no frames."""
    if len(labels) == 0:
        return np.zeros(0, dtype=int)
    return np.concatenate([[0], np.flatnonzero(labels[1:] != labels[:-1]) + 1])


def hit_runs(gold: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each maximal run of equal gold labels: its label and whether any of its frames is right.

    Args:
        gold: (num_frames,) gold labels.
        is_right: (num_frames,) whether the answer of the frame agrees with the gold label.
    """
    starts = run_starts(gold)
    if len(starts) == 0:
        return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
    return gold[starts], np.logical_or.reduceat(is_right, starts)


def rate(part: float, whole: float) -> float:
    """`part / whole`, 0 where the whole is 0 (the protocol's value for an undefined rate)."""
    return part / whole if whole else 0.0


def f1_score(precision: float, recall: float) -> float:
    """Harmonic mean, 0 where both are 0."""
    return rate(2 * precision * recall, precision + recall)
