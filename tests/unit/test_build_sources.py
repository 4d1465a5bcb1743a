"""Annotations become streams; what cannot is dropped, counted and named by file and line."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from data_builders.egopro import build_egopro
from data_builders.egopro_mapping import Mapping
from data_builders.omnimmi import build_omnimmi
from proact_train.cli import main
from proact_train.core.contracts import load_streams
from proact_train.core.errors import DataError

from .clips import make_clip

REAL_OMNIMMI = Path(__file__).parents[3] / "shared/data/omnimmi_pa/proactive_alerting.json"
QUERY = "Alert me when the cup shows."


def make_root(tmp_path: Path, rows: list[Any], split: str = "test") -> Path:
    root = tmp_path / "release"
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    (root / "videos").mkdir(exist_ok=True)
    make_clip(root / "videos/a.mp4", range(10), Fraction(1, 1), rate=1)
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    (root / f"annotations/{split}.jsonl").write_bytes(b"\n".join(lines))
    return root


def row(**changes: Any) -> dict[str, Any]:
    interval = {"start": 2.0, "end": 5.0}
    base = {"id": "x", "video": "a.mp4", "domain": "object", "query": QUERY}
    return {**base, "intervals": [interval], **changes}


def test_egopro_rows_become_streams(tmp_path: Path):
    reply = {"start": 1.0, "end": 3.0, "reply": "Take the red mug, Ana."}
    intent = row(
        id="y",
        domain="cooking",
        query=None,
        profile={"name": "Ana"},
        memory=["likes red"],
        intervals=[reply],
        thoughts=["a cup"] * 12,
    )
    report = build_egopro(make_root(tmp_path, [row(), intent]), tmp_path / "out", Mapping())
    event, personal = load_streams(tmp_path / "out/test.jsonl")
    assert (event.kind, event.num_frames, event.intervals[0].end_s) == ("event", 10, 5.0)
    assert Path(event.video.path).is_file()
    assert (tmp_path / "out/videos").is_symlink()
    assert personal.kind == "intent"
    assert personal.intervals[0].reply == "Take the red mug, Ana."
    assert len(personal.thoughts or {}) == 10
    assert report.notes == {"thoughts past the video's end left out": 2}
    assert report.answers == {"alert": 3, "reply": 1, "silence": 16}
    assert json.loads((tmp_path / "out/report.json").read_text())["num_streams"] == 2


def spoil_videos(root: Path) -> None:
    clip = (root / "videos/a.mp4").read_bytes()
    (root / "videos/cut.mp4").write_bytes(clip[: len(clip) // 2])
    (root / "videos/zero.mp4").write_bytes(b"")
    with av.open(str(root / "videos/audio.mp4"), "w") as container:
        track = container.add_stream("aac", rate=8000)
        silence = av.AudioFrame.from_ndarray(
            np.zeros((1, 1024), dtype=np.float32), format="fltp", layout="mono"
        )
        silence.sample_rate = 8000
        container.mux(track.encode(silence))
        container.mux(track.encode(None))


def interval(start: Any, end: Any) -> list[dict[str, Any]]:
    return [{"start": start, "end": end}]


BAD_ROWS = [
    (row(video="cut.mp4"), "unusable video"),
    (row(video="zero.mp4"), "unusable video: an empty file"),
    (row(video="audio.mp4"), "unusable video: no video track"),
    (row(video="gone.mp4"), "unusable video: no such file"),
    (row(video="../a.mp4"), "path leaves the root"),
    (row(video="/etc/a.mp4"), "path leaves the root"),
    (row(intervals=interval(12.0, 15.0)), "interval outside the video"),
    (row(intervals=interval(5.0, 2.0)), "interval that ends before it starts"),
    (row(intervals=interval(2.0, 2.0)), "interval that ends before it starts"),
    (row(intervals=interval(float("nan"), 2.0)), "NaN or infinite number"),
    (row(intervals=interval("2", 3.0)), "time that is not a number"),
    (row(domain="gardening"), "unknown domain"),
    (row(query=None), "event without a query"),
    (row(domain="cooking"), "intent interval without a reply"),
    (b'{"id": "caf\xe9"}', "line that is not UTF-8"),
    (b'{"id": ', "line without JSON"),
    (row(id="ok"), "duplicated id"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD_ROWS)
def test_a_bad_row_is_a_counted_drop(tmp_path: Path, bad: Any, reason: str):
    root = make_root(tmp_path, [row(id="ok"), bad])
    spoil_videos(root)
    report = build_egopro(root, tmp_path / "out", Mapping())
    (drop,) = report.drops
    assert drop.reason.startswith(reason)
    assert drop.where.endswith("test.jsonl:2")
    assert [stream.id for stream in load_streams(tmp_path / "out/test.jsonl")] == ["ok"]
    assert drop.reason in str(report)


def test_intervals_are_cut_and_widened_and_counted(tmp_path: Path):
    rows = [
        row(id="cut", intervals=interval(8.0, 99.0)),
        row(id="thin", intervals=interval(2.2, 2.7)),
    ]
    report = build_egopro(make_root(tmp_path, rows), tmp_path / "out", Mapping())
    cut, thin = load_streams(tmp_path / "out/test.jsonl")
    assert cut.intervals[0].end_s == pytest.approx(cut.video.duration_s)
    assert (thin.intervals[0].start_s, thin.intervals[0].end_s) == (2.0, 2.7)
    assert report.notes == {
        "intervals cut at the video's end": 1,
        "intervals widened to the frame on screen at their start": 1,
    }


def test_a_mapping_reads_other_names_and_units(tmp_path: Path):
    other = {
        "uid": "z",
        "meta": {"clip": "a.mp4"},
        "topic": "Objects",
        "ask": QUERY,
        "spans": [{"from": "00:00:02", "to": "00:04"}],
    }
    root = make_root(tmp_path, [other])
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(
        "fields: {id: uid, video: meta.clip, domain: topic, query: ask, intervals: spans}\n"
        "interval_fields: {start: from, end: to}\n"
        "time_unit: clock\nclosed_intervals: true\ndomains: {Objects: object}\n"
    )
    out = tmp_path / "out"
    command = ["build", "egopro", "--root", str(root), "--out", str(out)]
    assert main([*command, "--mapping", str(mapping)]) == 0
    (stream,) = load_streams(out / "test.jsonl")
    assert (stream.intervals[0].start_s, stream.intervals[0].end_s) == (2.0, 5.0)
    assert stream.intervals[0].source_interval == (2.0, 4.0)


def test_a_misspelt_mapping_key_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    root, mapping = make_root(tmp_path, [row()]), tmp_path / "mapping.yaml"
    mapping.write_text("licence: MIT\ntime_unitt: clock\n")
    command = ["build", "egopro", "--root", str(root), "--out", str(tmp_path / "out")]
    assert main([*command, "--mapping", str(mapping)]) == 2
    message = capsys.readouterr().err
    assert "mapping.yaml:2" in message
    assert "time_unit" in message
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_release_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="annotations"):
        build_egopro(tmp_path, tmp_path / "out", Mapping())


def test_omnimmi_layout(tmp_path: Path):
    rows = [
        {"video": "a_b_60.0_210.0.mp4", "question": "Tell me.", "answer": [6, 36]},
        {"video": "c_60.0_210.0.mp4", "question": "Tell me.", "answer": [124, 150]},
        {"video": "c_60.0_210.0.mp4", "question": "Tell me.", "answer": [1, 2]},
        {"video": "noname.mp4", "question": "Tell me.", "answer": [1, 2]},
        {"video": "d_0.0_150.0.mp4", "question": "Tell me.", "answer": [9, 2]},
    ]
    path = tmp_path / "pa.json"
    path.write_text(json.dumps(rows))
    report = build_omnimmi(path, None, tmp_path / "out")
    first, second = load_streams(tmp_path / "out/streams.jsonl")
    assert first.id == "a_b_60.0_210.0"
    assert first.num_frames == 150
    assert (first.intervals[0].start_s, first.intervals[0].end_s) == (6.0, 37.0)
    assert first.intervals[0].source_interval == (6.0, 36.0)
    assert second.intervals[0].end_s == 150.0
    assert report.notes["intervals cut at the video's end"] == 1
    assert [drop.reason for drop in report.drops] == [
        "duplicated id",
        "no length in the file name",
        "interval that ends before it starts",
    ]


def test_omnimmi_reads_lengths_from_videos(tmp_path: Path):
    videos = tmp_path / "clips"
    videos.mkdir()
    make_clip(videos / "a_0.0_150.0.mp4", range(10), Fraction(1, 1), rate=1)
    rows = [{"video": "a_0.0_150.0.mp4", "question": "Tell me.", "answer": [2, 3]}]
    (tmp_path / "pa.json").write_text(json.dumps(rows))
    build_omnimmi(tmp_path / "pa.json", videos, tmp_path / "out")
    (stream,) = load_streams(tmp_path / "out/streams.jsonl")
    assert stream.num_frames == 10
    assert Path(stream.video.path).is_file()


# OmniMMI's file is not ours to commit: it stands in the team's data folder, beside the checkout.
@pytest.mark.skipif(not REAL_OMNIMMI.is_file(), reason="the real annotations are not here")
def test_all_real_omnimmi_annotations_become_streams(tmp_path: Path):
    report = build_omnimmi(REAL_OMNIMMI, None, tmp_path)
    assert len(load_streams(tmp_path / "streams.jsonl")) == 200
    assert not report.drops
    assert report.notes["intervals cut at the video's end"] == 32
