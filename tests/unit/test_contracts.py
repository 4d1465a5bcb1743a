"""Files of the project: round trips, and every bad line named by file and line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from proact_train.core.contracts import (
    load_decisions,
    load_predictions,
    load_samples,
    load_streams,
    write_decisions,
    write_predictions,
    write_samples,
    write_streams,
)
from proact_train.core.errors import DataError
from proact_train.core.jsonl import atomic_write, read_jsonl, write_jsonl
from proact_train.core.types import (
    Decision,
    Interval,
    PredictedTurn,
    Prediction,
    Query,
    SftSample,
    Source,
    Stream,
    Video,
)


def make_stream(folder: Path, stream_id: str = "a") -> Stream:
    return Stream(
        stream_id,
        Video(str(folder / "videos" / f"{stream_id}.mp4"), 9.5),
        "intent",
        "cooking",
        Source("test", "train", "Apache-2.0"),
        query=(Query(0.0, "hilf mir, 世界"),),
        profile={"name": "Mia"},
        memory=("likes tea",),
        intervals=(Interval(1.0, 3.0, reply="Tea?", source_interval=(1.0, 2.0)),),
        thoughts={1: "see tea"},
    )


def write_lines(path: Path, *lines: bytes | str) -> Path:
    path.write_bytes(b"".join((x.encode() if isinstance(x, str) else x) + b"\n" for x in lines))
    return path


@pytest.fixture
def line(tmp_path: Path) -> dict:
    write_streams(tmp_path / "whole.jsonl", [make_stream(tmp_path)])
    return json.loads((tmp_path / "whole.jsonl").read_text())


def test_streams_round_trip_with_relative_paths_on_disk(tmp_path: Path, line: dict):
    assert line["video"]["path"] == "videos/a.mp4"
    assert line["schema"] == "proact.stream/1"
    assert load_streams(tmp_path / "whole.jsonl") == [make_stream(tmp_path)]


def test_samples_decisions_and_predictions_round_trip(tmp_path: Path):
    place = {"type": "image"}
    user = {"role": "user", "content": [{"type": "text", "text": "x"}, place]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "y"}], "loss_weight": 0.5}
    image = str(tmp_path / "images" / "0.jpg")
    samples = [SftSample("a", [user, answer], [image])]
    write_samples(tmp_path / "samples.jsonl", samples)
    assert load_samples(tmp_path / "samples.jsonl") == samples
    assert "images/0.jpg" in (tmp_path / "samples.jsonl").read_text()
    decision = Decision("a", "a/1", 1, [user], [image], ["h"], "g", "<Silence>", "event", "object")
    write_decisions(tmp_path / "decisions.jsonl", [decision])
    assert load_decisions(tmp_path / "decisions.jsonl") == [decision]
    turns = (PredictedTurn(0.0, "raw", None, "invalid", failure="missing_thought"),)
    predictions = [Prediction("a", "m", "alert", turns)]
    write_predictions(tmp_path / "predictions.jsonl", predictions)
    assert load_predictions(tmp_path / "predictions.jsonl") == predictions


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "proact.stream/9"}, "schema 'proact.stream/9'"),
        ({"kind": "events"}, "kind"),
        ({"surprise": 1}, "surprise"),
        ({"video": {"path": "/etc/passwd", "duration_s": 9.0}}, "path '/etc/passwd'"),
        ({"video": {"path": "../x.mp4", "duration_s": 9.0}}, "path '../x.mp4'"),
        ({"video": {"path": "x.mp4", "duration_s": 0.0}}, "duration_s 0.0"),
        ({"video": {"path": "x.mp4", "duration_s": "9"}}, "video.duration_s: found '9'"),
        ({"fps": -1.0}, "fps -1.0"),
        ({"id": ""}, "an empty id"),
        ({"intervals": [{"start_s": 3.0, "end_s": 1.0}]}, "an end after the start"),
        ({"intervals": [{"start_s": 3.0, "end_s": 3.0}]}, "an end after the start"),
        ({"intervals": [{"start_s": 3.0, "end_s": 99.0}]}, "times inside the video"),
        ({"intervals": [{"start_s": -1.0, "end_s": 2.0}]}, "times inside the video"),
        ({"thoughts": {"99": "x"}}, "a thought for frame 99"),
    ],
)
def test_a_bad_stream_is_named_by_file_and_line(tmp_path: Path, line: dict, change, words):
    path = write_lines(tmp_path / "bad.jsonl", json.dumps(line), json.dumps({**line, **change}))
    path.write_text(path.read_text().replace('"id": "a"', '"id": "first"', 1))
    with pytest.raises(DataError) as caught:
        load_streams(path)
    assert str(caught.value).startswith(f"{path}:2"), caught.value
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b'{"id": "\xff"}', "byte 0xff at column 9"),
        ("{", "invalid JSON"),
        ("[1]", "a JSON list"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": Infinity}', "Infinity is not JSON"),
    ],
)
def test_a_line_that_is_no_json_object_is_named(tmp_path: Path, bad, words):
    path = write_lines(tmp_path / "bad.jsonl", '{"fine": 1}', "", bad)
    with pytest.raises(DataError, match=words) as caught:
        list(read_jsonl(path))
    assert caught.value.where == f"{path}:3"


def test_a_nan_time_in_a_prediction_is_refused(tmp_path: Path):
    turn = '{"t_s": NaN, "raw": "", "thought": null, "action": "silence"}'
    row = f'{{"stream_id": "a", "model": "m", "prompt": "alert", "turns": [{turn}]}}'
    with pytest.raises(DataError, match=r":1 turns\.0\.t_s"):
        load_predictions(write_lines(tmp_path / "p.jsonl", row))


def test_a_duplicated_id_names_both_lines(tmp_path: Path, line: dict):
    path = write_lines(tmp_path / "twice.jsonl", json.dumps(line), json.dumps(line))
    with pytest.raises(DataError, match=r"twice.jsonl:2: found id 'a'.*twice.jsonl:1 too"):
        load_streams(path)


def test_decisions_of_one_stream_stand_together(tmp_path: Path):
    user = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    first = Decision("a", "a/1", 1, [user], [], [], "g", "<Silence>", "event", "object")
    rows = [
        first,
        replace(first, stream_id="b", decision_id="b/1"),
        replace(first, decision_id="a/2"),
    ]
    write_decisions(tmp_path / "torn.jsonl", rows)
    with pytest.raises(DataError, match=r"row 3.*the rows of one stream together"):
        load_decisions(tmp_path / "torn.jsonl")


def test_image_places_and_images_must_agree(tmp_path: Path):
    user = {"role": "user", "content": [{"type": "image"}]}
    write_jsonl(tmp_path / "s.jsonl", [{"stream_id": "a", "messages": [user], "images": []}])
    with pytest.raises(DataError, match="1 image places for 0 images"):
        load_samples(tmp_path / "s.jsonl")


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path):
    path = tmp_path / "out.jsonl"
    path.write_text("old\n")

    def rows():
        yield {"a": 1}
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_jsonl(path, rows())
    assert path.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]
    with atomic_write(path) as file:
        file.write("new\n")
    assert path.read_text() == "new\n"


def test_an_empty_file_holds_no_streams(tmp_path: Path):
    assert load_streams(write_lines(tmp_path / "empty.jsonl")) == []
    with pytest.raises(DataError, match="no such file"):
        load_streams(tmp_path / "none.jsonl")
