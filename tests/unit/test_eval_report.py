"""Timelines and score rows of a report page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eval.protocols.egopro import score
from eval.report import build_timelines, pick_streams, score_rows
from proact_train.core.types import Query

from .test_eval_egopro import event, intent, predict


def test_timeline_of_gold_and_answers():
    stream = replace(intent("i", 4, (1, 3)), memory=("likes tea",), query=(Query(0.0, "Help"),))
    (timeline,) = build_timelines([stream], [predict(stream, "01x0")], {"i": [Path("0.jpg")]})
    frames = timeline.frames
    assert [frame.is_gold for frame in frames] == [False, True, True, False]
    assert [frame.gold_reply for frame in frames] == [None, "gold 1", None, None]
    assert [frame.action for frame in frames] == ["silence", "reply", "invalid", "silence"]
    assert [frame.text for frame in frames] == [None, "Hello.", "no thought", None]
    assert [frame.image for frame in frames] == [Path("0.jpg"), None, None, None]
    assert timeline.told == ("Help", "likes tea")


def test_timeline_without_a_prediction():
    (timeline,) = build_timelines([event("a", "01")], [])
    assert [frame.action for frame in timeline.frames] == [None, None]


def test_picked_streams_have_gold_and_cover_domains():
    streams = [event("a", "00"), event("b", "01"), event("c", "01"), intent("i", 2, (0, 1))]
    assert [stream.id for stream in pick_streams(streams, 1)] == ["i", "b"]


def test_score_rows_in_percent():
    streams = [event("a", "0110")]
    rows = score_rows(
        {"before": score(streams, []), "after": score(streams, [predict(streams[0], "0110")])}
    )
    assert rows == [
        ["", "object", "n", "unscored"],
        ["before", "-", "0", "1"],
        ["after", "100.0", "1", "0"],
    ]
