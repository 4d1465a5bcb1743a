"""EgoPro's protocol on whole streams: groups, domains, options, unscored streams, judges."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.protocols.egopro import EgoProOptions, score, score_streams
from eval.protocols.egopro_judged import QualityJudges
from eval.turns import to_turn
from proact_train.core.errors import DataError
from proact_train.core.types import Interval, Prediction, Query, Source, Stream, Video

SOURCE = Source("made", "test", "Apache-2.0")


def event(name: str, gold: str, domain: str = "object", **more) -> Stream:
    intervals, idx = [], 0
    for run in gold.replace("10", "1 0").replace("01", "0 1").split():
        if run[0] == "1":
            intervals.append(Interval(float(idx), float(idx + len(run))))
        idx += len(run)
    video = Video(f"{name}.mp4", float(len(gold)))
    return Stream(name, video, "event", domain, SOURCE, intervals=tuple(intervals), **more)


def intent(name: str, num_frames: int, *spans: tuple[int, int], domain: str = "cooking") -> Stream:
    intervals = tuple(Interval(float(s), float(e), reply=f"gold {s}") for s, e in spans)
    video = Video(f"{name}.mp4", float(num_frames))
    return Stream(
        name, video, "intent", domain, SOURCE, intervals=intervals, profile={"job": "cook"}
    )


def predict(stream: Stream, answers: str) -> Prediction:
    """One character a frame: 0 silence, 1 alert or reply, x a broken answer, s a sentence."""
    speak = "<Attention>" if stream.kind == "event" else "Hello."
    texts = {"0": "<think>t</think><Silence>", "1": f"<think>t</think>{speak}"}
    texts |= {"x": "no thought", "s": "<think>t</think>There it is."}
    turns = [
        to_turn(idx / stream.fps, texts[answer], stream.kind, True)
        for idx, answer in enumerate(answers)
    ]
    return Prediction(stream.id, "model", "proact.prompt/1 alert", tuple(turns))


class Marks:
    """A judge with given marks by model text."""

    name = "marks"

    def __init__(self, marks: dict[str, int | None]):
        self.marks, self.asked = marks, list[tuple[str, str]]()

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[int | None]:
        self.asked += pairs
        return [self.marks[text] for text, _ in pairs]


def test_vectors_end_to_end():
    streams = [event("e", "00110100"), intent("i", 10, (2, 3), (3, 6))]
    scores = score(streams, [predict(streams[0], "01100000"), predict(streams[1], "0010110010")])
    alert, reply = scores["groups"]["object"], scores["groups"]["intent"]
    names = ("precision", "recall", "f1", "gha", "miou")
    assert [alert[name] for name in names] == pytest.approx([0.5, 1 / 3, 0.4, 0.8, 0.25])
    assert [reply[name] for name in names] == pytest.approx([0.5, 1, 2 / 3, 1, 2 / 3])
    assert (scores["protocol"], scores["n"], scores["unscored"]) == ("egopro", 2, 0)
    assert list(scores) == [
        "protocol",
        "version",
        "options",
        "n",
        "unscored",
        "groups",
        "domains",
    ]


def test_mean_over_streams_not_over_frames():
    streams = [event("a", "1"), event("b", "1111")]
    scores = score(streams, [predict(streams[0], "0"), predict(streams[1], "1111")])
    assert scores["groups"]["object"]["recall"] == 0.5


def test_intent_is_the_unweighted_mean_of_domains():
    streams = [
        intent("a", 2, (0, 1)),
        intent("b", 2, (0, 1)),
        intent("c", 2, (0, 1), domain="art"),
    ]
    answers = ["10", "10", "00"]
    scores = score(streams, [predict(s, a) for s, a in zip(streams, answers, strict=True)])
    assert scores["domains"]["cooking"]["f1"] == 1
    assert scores["domains"]["art"]["f1"] == 0
    assert scores["groups"]["intent"]["f1"] == 0.5
    assert scores["groups"]["intent"]["n"] == 3


def test_external_set_is_a_group_of_its_own():
    streams = [event("a", "01", domain="omnimmi")]
    assert score(streams, [predict(streams[0], "01")])["groups"]["omnimmi"]["f1"] == 1


def test_missing_prediction_or_frame_is_unscored_never_0():
    streams = [event("a", "01"), event("b", "01"), event("c", "01")]
    torn = predict(streams[1], "01")
    torn = replace(torn, turns=torn.turns[:1])
    scores = score(streams, [predict(streams[0], "01"), torn])
    group = scores["groups"]["object"]
    assert (group["f1"], group["n"], group["unscored"]) == (1, 1, 2)
    assert (scores["n"], scores["unscored"]) == (1, 2)


def test_nothing_scored_is_none():
    group = score([event("a", "01")], [])["groups"]["object"]
    assert (group["f1"], group["n"], group["unscored"]) == (None, 0, 1)


def test_empty_domain_stays_out_of_the_intent_mean():
    streams = [intent("a", 2, (0, 1)), intent("b", 2, (0, 1), domain="art")]
    group = score(streams, [predict(streams[0], "10")])["groups"]["intent"]
    assert (group["f1"], group["n"], group["unscored"]) == (1, 1, 1)


def test_no_streams():
    scores = score([], [])
    assert (scores["n"], scores["groups"], scores["domains"]) == (0, {}, {})


def test_invalid_option():
    streams = [event("a", "0110")]
    predictions = [predict(streams[0], "x11x")]
    wrong = score(streams, predictions)["groups"]["object"]
    silence = score(streams, predictions, EgoProOptions(invalid="silence"))["groups"]["object"]
    assert (wrong["precision"], silence["precision"]) == (0.5, 1)
    assert wrong["invalid"] == silence["invalid"] == 0.5


def test_lenient_option():
    streams = [event("a", "0110")]
    predictions = [predict(streams[0], "0ssx")]
    assert score(streams, predictions)["groups"]["object"]["recall"] == 0
    lenient = score(streams, predictions, EgoProOptions(lenient=True))["groups"]["object"]
    assert (lenient["recall"], lenient["invalid"]) == (1, 0.25)


def test_before_query_option():
    stream = event("a", "1011", query=(Query(2.0, "Alert me"), Query(3.0, "Still")))
    predictions = [predict(stream, "0111")]
    skip = score([stream], predictions)["groups"]["object"]
    kept = score([stream], predictions, EgoProOptions(before_query="score"))["groups"]["object"]
    assert skip["f1"] == 1
    assert kept["f1"] == pytest.approx(2 / 3)


def test_query_behind_the_last_frame_is_unscored():
    stream = event("a", "10", query=(Query(9.0, "Alert me"),))
    scores = score_streams([stream], [predict(stream, "10")], EgoProOptions())
    assert scores[0].unscored == "no frame at or after the first query"


def test_intent_interval_before_the_query_is_not_missed():
    stream = replace(intent("i", 6, (0, 2), (3, 5)), query=(Query(2.0, "Help me"),))
    group = score([stream], [predict(stream, "000100")])["groups"]["intent"]
    assert (group["recall"], group["gha"]) == (1, 1)


def test_miou_without_match_option():
    streams = [intent("a", 3, (1, 2)), intent("b", 3, (1, 2))]
    predictions = [predict(streams[0], "010"), predict(streams[1], "000")]
    assert score(streams, predictions)["groups"]["intent"]["miou"] == 0.5
    skip = score(streams, predictions, EgoProOptions(miou_without_match="skip"))
    assert (skip["groups"]["intent"]["miou"], skip["groups"]["intent"]["miou_n"]) == (1, 1)


def test_judged_lowest_of_an_interval_and_0_without_match():
    streams = [intent("a", 6, (0, 2), (4, 5)), intent("b", 2, (0, 1))]
    first = predict(streams[0], "110110")
    texts = ["five", "three", None, "outside", "two", None]
    turns = tuple(
        replace(turn, reply=text) if text else turn
        for turn, text in zip(first.turns, texts, strict=True)
    )
    judge = Marks({"five": 5, "three": 3, "two": 2})
    judges = QualityJudges(judge, judge)
    scores = score(streams, [replace(first, turns=turns), predict(streams[1], "00")], judges=judges)
    group = scores["groups"]["intent"]
    assert (group["mc"], group["rq"]) == (1.25, 1.25)
    assert (group["mc_matched"], group["mc_unscored"]) == (2.5, 0)
    assert judge.asked[0] == ("five", 'User: {"job": "cook"}')
    assert judge.asked[3] == ("five", "gold 0")
    assert scores["options"]["judges"] == {"mc": "marks", "rq": "marks"}


def test_failed_judge_is_unscored_not_0():
    streams = [intent("a", 2, (0, 1)), intent("b", 2, (0, 1))]
    predictions = [predict(streams[0], "10"), predict(streams[1], "10")]
    good, bad = Marks({"Hello.": 4}), Marks({"Hello.": None})
    group = score(streams, predictions, judges=QualityJudges(good, bad))["groups"]["intent"]
    assert (group["mc"], group["mc_unscored"]) == (4, 0)
    assert (group["rq"], group["rq_unscored"]) == (None, 2)
    out_of_scale = Marks({"Hello.": 6})
    judged = score(streams, predictions, judges=QualityJudges(good, out_of_scale))
    assert judged["groups"]["intent"]["rq_unscored"] == 2


def test_domain_of_two_kinds_is_refused():
    streams = [event("a", "01", domain="cooking"), intent("b", 2, (0, 1))]
    with pytest.raises(DataError, match="domain 'cooking'"):
        score(streams, [])


@given(
    golds=st.lists(st.text("01", min_size=1, max_size=8), min_size=1, max_size=6),
    data=st.data(),
)
def test_order_of_streams_and_predictions_does_not_matter(golds, data):
    streams = [
        event(str(idx), gold, domain=("object", "action")[idx % 2])
        for idx, gold in enumerate(golds)
    ]
    predictions = [
        predict(s, data.draw(st.text("01x", min_size=s.num_frames, max_size=s.num_frames)))
        for s in streams
    ]
    shuffle = random.Random(data.draw(st.integers(0, 99)))
    expected = score(streams, predictions)
    shuffle.shuffle(streams)
    shuffle.shuffle(predictions)
    assert score(streams, predictions) == expected


def test_always_silent_and_always_speak():
    streams = [event("e", "0110"), intent("i", 10, (2, 4), (7, 10))]
    speak = score(streams, [predict(s, "1" * s.num_frames) for s in streams])["groups"]
    silent = score(streams, [predict(s, "0" * s.num_frames) for s in streams])["groups"]
    assert (speak["intent"]["recall"], speak["intent"]["precision"]) == (1, 0.2)
    assert (speak["object"]["recall"], speak["object"]["precision"]) == (1, 0.5)
    assert (silent["object"]["f1"], silent["object"]["gha"]) == (0, pytest.approx(2 / 3))
    assert (silent["intent"]["f1"], silent["intent"]["miou"]) == (0, 0)
