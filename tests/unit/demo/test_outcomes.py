"""Outcomes of frames by hand, and their sums equal to the protocol's rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.protocols.egopro import EgoProOptions, score_streams
from eval.report import build_timelines
from proact_train.core.types import Query
from proact_train.demo.outcomes import Outcomes, judge
from tests.unit.test_eval_egopro import event, intent, predict

LETTERS = {"hit": "h", "miss": "m", "false_alarm": "f", "quiet": ".", "unscored": "u"}


def judged(stream, answers: str) -> Outcomes:
    (timeline,) = build_timelines([stream], [predict(stream, answers)])
    return judge(stream, timeline)


def letters(outcomes: Outcomes) -> str:
    return "".join(LETTERS[outcome] for outcome in outcomes.frames)


def test_event_frames_by_hand():
    outcomes = judged(event("e", "00110100"), "01x00x00")
    assert letters(outcomes) == ".fmm.m.."
    assert outcomes.summary == "0 of 3 gold frames hit, 1 false alarm"
    assert letters(judged(event("e", "0011"), "x011")) == "f.hh"


def test_intent_intervals_by_hand():
    stream = intent("i", 10, (2, 3), (3, 6))
    outcomes = judged(stream, "0010110010")
    assert letters(outcomes) in ("..h.hf..f.", "..h.fh..f.")
    assert outcomes.summary == "2 of 2 intervals hit, 2 false alarms"
    assert letters(judged(stream, "x01000x000")) == "f.hmmmf..."
    assert letters(judged(stream, "000x000000")) == "..mmmm...."


def test_frames_before_the_query_are_not_scored():
    stream = replace(event("e", "1111"), query=(Query(2.0, "Alert me."),))
    assert letters(judged(stream, "1110")) == "uuhm"
    stream = replace(intent("i", 5, (0, 2), (3, 5)), query=(Query(2.0, "Help."),))
    assert letters(judged(stream, "11010")) == "uu.h."


def test_without_a_prediction_nothing_is_judged():
    stream = event("e", "01")
    (timeline,) = build_timelines([stream], [])
    assert letters(judge(stream, timeline)) == "uu"


def test_a_stream_without_gold():
    assert letters(judged(event("e", "000"), "010")) == ".f."
    assert letters(judged(intent("i", 3), "010")) == ".f."


@given(st.text("01x", min_size=12, max_size=12), st.text("01", min_size=12, max_size=12))
def test_event_sums_are_the_protocols_rates(answers, gold):
    check(event("e", gold), answers)


@given(
    st.text("01x", min_size=12, max_size=12),
    st.lists(st.tuples(st.integers(0, 10), st.integers(1, 4)), max_size=4),
)
def test_intent_sums_are_the_protocols_rates(answers, spans):
    check(intent("i", 12, *((s, min(12, s + length)) for s, length in spans)), answers)


def check(stream, answers: str) -> None:
    outcomes = judged(stream, answers)
    (scores,) = score_streams([stream], [predict(stream, answers)], EgoProOptions())
    num_hits, num_false = outcomes.frames.count("hit"), outcomes.frames.count("false_alarm")
    precision = num_hits / (num_hits + num_false) if num_hits + num_false else 0.0
    assert precision == pytest.approx(scores.metrics["precision"])
    if stream.kind == "event":
        wanted = num_hits + outcomes.frames.count("miss")
    else:
        wanted = len(stream.intervals)
    assert (num_hits / wanted if wanted else 0.0) == pytest.approx(scores.metrics["recall"])
