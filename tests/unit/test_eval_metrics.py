"""Event and intent metrics: the protocol's vectors, slow definitions, degenerate input."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.metrics.event import score_event
from eval.metrics.intent import match_replies, score_intent
from eval.metrics.segments import interval_masks, run_starts
from proact_train.core.types import Interval
from proact_train.stream.timeline import interval_frames

labels = st.lists(st.booleans(), min_size=1, max_size=12)


def bits(text: str) -> np.ndarray:
    return np.array([character == "1" for character in text])


def masks_of(num_frames: int, *frames: set[int]) -> np.ndarray:
    return np.array([[idx in owned for idx in range(num_frames)] for owned in frames]).reshape(
        len(frames), num_frames
    )


def test_event_vector():
    scores = score_event(bits("00110100"), bits("01100000"))
    assert scores.precision == 0.5
    assert scores.recall == pytest.approx(1 / 3)
    assert scores.f1 == pytest.approx(0.4)
    assert scores.gha == pytest.approx(0.8)
    assert scores.miou == pytest.approx(0.25)


def test_intent_vector():
    scores = score_intent(masks_of(10, {2}, {3, 4, 5}), bits("0010110010"))
    assert (scores.precision, scores.recall, scores.gha) == (0.5, 1.0, 1.0)
    assert scores.f1 == pytest.approx(2 / 3)
    assert scores.miou == pytest.approx(2 / 3)
    assert scores.matched[0] == (2, 0)


def test_always_silent_event():
    scores = score_event(bits("0011"), bits("0000"))
    assert (scores.precision, scores.recall, scores.f1, scores.miou) == (0, 0, 0, 0)
    assert scores.gha == 0.5


def test_always_speak_event():
    scores = score_event(bits("0011"), bits("1111"))
    assert (scores.precision, scores.recall, scores.gha, scores.miou) == (0.5, 1, 0.5, 0.5)


def test_always_speak_intent_has_recall_1_and_precision_gold_over_frames():
    scores = score_intent(masks_of(10, {2, 3}, {7, 8, 9}), np.ones(10, dtype=bool))
    assert scores.recall == 1
    assert scores.precision == pytest.approx(2 / 10)
    assert scores.gha == pytest.approx(2 / 4)
    assert scores.miou == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_always_silent_intent():
    scores = score_intent(masks_of(6, {2, 3}), np.zeros(6, dtype=bool))
    assert (scores.precision, scores.recall, scores.f1, scores.miou) == (0, 0, 0, None)
    assert scores.gha == pytest.approx(2 / 3)


def test_no_gold_at_all():
    silent = score_event(bits("0000"), bits("0000"))
    assert (silent.precision, silent.recall, silent.f1, silent.gha, silent.miou) == (0, 0, 0, 1, 0)
    intent = score_intent(masks_of(4), bits("0100"))
    assert (intent.precision, intent.recall, intent.gha, intent.miou) == (0, 0, 1, None)


def test_one_frame():
    assert score_event(bits("1"), bits("1")).gha == 1
    assert score_intent(masks_of(1, {0}), bits("1")).miou == 1


def test_interval_without_a_frame_is_missed_but_not_widened():
    scores = score_intent(masks_of(4, set(), {1}), bits("0100"))
    assert (scores.precision, scores.recall) == (1, 0.5)
    assert scores.gha == pytest.approx(3 / 4)


def test_touching_intervals_stay_separate():
    one_reply = score_intent(masks_of(4, {0, 1}, {2, 3}), bits("0100"))
    assert (one_reply.recall, one_reply.gha) == (0.5, 0.5)
    assert score_intent(masks_of(4, {0, 1}, {2, 3}), bits("0110")).recall == 1


def test_reply_in_an_overlap_serves_the_interval_with_the_larger_iou():
    scores = score_intent(masks_of(4, {0, 1, 2}, {1, 2}), bits("0100"))
    assert scores.matched == ((1, 1),)
    assert scores.miou == 0.5
    assert scores.gha == 1


def test_total_iou_is_largest_not_greedy():
    assert len(match_replies(masks_of(3, {0}, {0, 1, 2}), np.array([0, 1]))) == 2


def test_invalid_answers_are_wrong_on_every_frame():
    everywhere = np.ones(4, dtype=bool)
    event = score_event(bits("0110"), bits("0000"), everywhere)
    assert (event.precision, event.recall, event.gha, event.miou) == (0, 0, 0, 0)
    intent = score_intent(masks_of(4, {1, 2}), bits("0000"), everywhere)
    assert (intent.precision, intent.recall, intent.gha, intent.miou) == (0, 0, 0, None)


def test_invalid_on_a_silent_frame_lowers_precision_only():
    invalid = bits("1000")
    assert score_event(bits("0110"), bits("0110"), invalid).precision == pytest.approx(2 / 3)
    intent = score_intent(masks_of(4, {1, 2}), bits("0100"), invalid)
    assert (intent.precision, intent.recall) == (0.5, 1)


@given(gold=labels, data=st.data())
def test_event_equals_the_naive_definition(gold, data):
    predicted = data.draw(st.lists(st.booleans(), min_size=len(gold), max_size=len(gold)))
    pairs = list(zip(gold, predicted, strict=True))
    tp, fp = pairs.count((True, True)), pairs.count((False, True))
    fn = pairs.count((True, False))
    runs, hits = naive_runs(gold), 0
    for run in runs:
        hits += any(predicted[idx] == gold[idx] for idx in run)
    scores = score_event(np.array(gold), np.array(predicted))
    assert scores.precision == (tp / (tp + fp) if tp + fp else 0)
    assert scores.recall == (tp / (tp + fn) if tp + fn else 0)
    assert scores.f1 == pytest.approx(2 * tp / (2 * tp + fp + fn) if tp else 0)
    assert scores.gha == hits / len(runs)
    assert scores.miou == (tp / (tp + fp + fn) if tp + fp + fn else 0)


def naive_runs(values: list[bool]) -> list[list[int]]:
    runs: list[list[int]] = []
    for idx, value in enumerate(values):
        if runs and values[runs[-1][-1]] == value:
            runs[-1].append(idx)
        else:
            runs.append([idx])
    return runs


@given(
    num_frames=st.integers(1, 8),
    spans=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), max_size=4),
    data=st.data(),
)
def test_intent_equals_brute_force(num_frames, spans, data):
    owned = [{idx for idx in range(s, s + n) if idx < num_frames} for s, n in spans]
    replies = sorted(data.draw(st.sets(st.integers(0, num_frames - 1), max_size=5)))
    best_total, best_count = brute_force(owned, replies)
    replied = np.isin(np.arange(num_frames), replies)
    scores = score_intent(masks_of(num_frames, *owned), replied)
    assert len(scores.matched) == best_count
    assert scores.precision == (best_count / len(replies) if replies else 0)
    assert scores.recall == (best_count / len(owned) if owned else 0)
    assert scores.miou == (pytest.approx(best_total / best_count) if best_count else None)
    gold = [any(idx in frames for frames in owned) for idx in range(num_frames)]
    units = [(frames, True) for frames in owned]
    units += [(set(run), False) for run in naive_runs(gold) if not gold[run[0]]]
    hits = sum(any((idx in replies) == speaks for idx in frames) for frames, speaks in units)
    assert scores.gha == pytest.approx(hits / len(units))


def brute_force(owned: list[set[int]], replies: list[int]) -> tuple[float, int]:
    """Best (total IoU, pairs) over every one-to-one assignment of intervals to replies or none."""
    best = (0.0, 0)
    for choice in set(permutations([*replies, *[None] * len(owned)], len(owned))):
        ious = [
            1 / len(frames)
            for frames, reply in zip(owned, choice, strict=True)
            if reply is not None and reply in frames
        ]
        best = max(best, (round(sum(ious), 9), len(ious)))
    return best


@given(
    num_frames=st.integers(1, 40),
    fps=st.sampled_from([1.0, 0.5, 2.0, 29.97, 3.0]),
    spans=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=3),
)
def test_masks_equal_the_timeline(num_frames, fps, spans):
    intervals = [Interval(start / fps, (start + length) / fps) for start, length in spans]
    masks = interval_masks(intervals, num_frames, fps)
    assert masks.shape == (len(intervals), num_frames)
    for mask, interval in zip(masks, intervals, strict=True):
        assert np.flatnonzero(mask).tolist() == interval_frames(interval, fps, num_frames)


def test_float_noise_at_an_edge_owns_no_extra_frame():
    masks = interval_masks([Interval(0.1, 0.1 + 0.2), Interval(0.1 + 0.2, 0.6)], 8, 10.0)
    assert [np.flatnonzero(mask).tolist() for mask in masks] == [[1, 2], [3, 4, 5]]


def test_run_starts_of_nothing():
    assert run_starts(np.zeros(0, dtype=bool)).tolist() == []
