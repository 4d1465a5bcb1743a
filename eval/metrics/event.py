"""Metrics of one event stream, frame by frame (paper D.1.1 and D.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .segments import f1_score, hit_runs, rate


@dataclass(frozen=True)
class EventScores:
    """Rates of one stream, each in [0, 1]; a rate without a denominator is 0."""

    precision: float
    recall: float
    f1: float
    gha: float
    miou: float


def score_event(
    gold: np.ndarray, predicted: np.ndarray, is_invalid: np.ndarray | None = None
) -> EventScores:
    """Scores the alerts of one stream.

    GHA runs over maximal runs of equal gold labels, silent runs included: the paper's text names
    ground-truth intervals only, but an almost silent model scores 50 to 65 in its tables, which
    only silent runs can give. An alert run is hit by one alert, a silent run by one silence.

    Args:
        gold: (num_frames,) booleans, True inside an interval.
        predicted: (num_frames,) booleans, True for an alert.
        is_invalid: (num_frames,) booleans; such an answer is wrong whatever the gold label is.
    """
    gold, predicted = np.asarray(gold, dtype=bool), np.asarray(predicted, dtype=bool)
    if is_invalid is not None:
        predicted = np.where(is_invalid, ~gold, predicted)
    true_positives = int(np.count_nonzero(gold & predicted))
    num_predicted, num_gold = int(np.count_nonzero(predicted)), int(np.count_nonzero(gold))
    precision, recall = rate(true_positives, num_predicted), rate(true_positives, num_gold)
    _, is_hit = hit_runs(gold, gold == predicted)
    return EventScores(
        precision,
        recall,
        f1_score(precision, recall),
        rate(int(np.count_nonzero(is_hit)), len(is_hit)),
        rate(true_positives, num_predicted + num_gold - true_positives),
    )
