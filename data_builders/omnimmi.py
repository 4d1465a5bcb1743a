"""OmniMMI proactive alerting -> streams (kind event, domain `omnimmi`).

The clips are named `YTID_START_END.mp4`; where videos are absent, that gives the length. Answers
are closed integer seconds inside the clip: [s, e] becomes [s, e + 1/fps), cut at the clip's end.

example:
  proact build omnimmi --annotations proactive_alerting.json --videos clips --out data/omnimmi
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from tqdm import tqdm

from proact_train.core.contracts import check_stream, write_streams
from proact_train.core.errors import DataError
from proact_train.core.types import Interval, Query, Source, Stream, Video

from .annotations import (
    RowRefused,
    fit_interval,
    inside,
    link_videos,
    number,
    pair,
    video_duration_s,
)
from .report import BuildReport, Drop

_SOURCE = Source("OmniMMI-PA", "test", "MIT")
_CLIP_NAME = re.compile(r"(?P<video>.+)_(?P<start_s>\d+(\.\d+)?)_(?P<end_s>\d+(\.\d+)?)\.mp4")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--annotations", type=Path, required=True, help="proactive_alerting.json")
    parser.add_argument("--videos", type=Path, help="folder of the clips; without it, none is read")
    parser.add_argument("--out", type=Path, required=True, help="folder for streams and report")
    parser.add_argument("--fps", type=float, default=1.0, help="frames watched a second")


def run(args: argparse.Namespace) -> None:
    report = build_omnimmi(args.annotations, args.videos, args.out, args.fps)
    print(report)
    print(f"streams: {args.out / 'streams.jsonl'}")


def build_omnimmi(
    annotations: Path, videos: Path | None, out: Path, fps: float = 1.0
) -> BuildReport:
    """Writes `OUT/streams.jsonl` and `OUT/report.json`; `OUT/videos` links to the clips."""
    if fps <= 0:
        raise DataError("--fps", f"{fps}", "a rate above 0", "Leave it out for 1 frame a second.")
    rows, report = _read_rows(annotations), BuildReport("omnimmi")
    if videos is not None and not videos.is_dir():
        raise DataError("--videos", f"{videos}", "a folder of clips", "Check the path.")
    streams: dict[str, Stream] = {}
    for idx, row in enumerate(tqdm(rows, unit="row", desc="OmniMMI")):
        where = f"{annotations} [{idx}]"
        row_report = BuildReport("omnimmi")  # counts only what is kept
        try:
            stream = _to_stream(row, videos, out, fps, row_report)
            if stream.id in streams:
                raise RowRefused("duplicated id", stream.id)
        except RowRefused as refused:
            report.drops.append(Drop(where, refused.reason, refused.detail))
            continue
        check_stream(where, stream)
        streams[stream.id] = stream
        for what, count in row_report.notes.items():
            report.note(what, count)
    if videos is not None:
        link_videos(videos, out)
    write_streams(out / "streams.jsonl", streams.values())
    report.add_streams(list(streams.values()))
    report.write(out / "report.json")
    return report


def _read_rows(path: Path) -> list[Any]:
    if not path.is_file():
        raise DataError(str(path), "no such file", "OmniMMI's JSON list", "Check the path.")
    try:
        rows = json.loads(path.read_bytes().decode("utf-8"))
    except ValueError as error:  # of the text's encoding too
        raise DataError(
            str(path), f"{error}", "one JSON list in UTF-8", "Fetch the file again."
        ) from None
    if not isinstance(rows, list):
        raise DataError(str(path), f"a JSON {type(rows).__name__}", "a list", "Check the file.")
    return rows


def _to_stream(row: Any, videos: Path | None, out: Path, fps: float, report: BuildReport) -> Stream:
    if not isinstance(row, dict) or not {"video", "question", "answer"} <= set(row):
        raise RowRefused("row without video, question and answer", repr(row)[:80])
    relative = inside(Path("videos"), row["video"])
    name, question = str(row["video"]), row["question"]
    if not isinstance(question, str) or not question.strip():
        raise RowRefused("no question", repr(question))
    if videos is not None:
        duration_s = video_duration_s(inside(videos, name))
    elif match := _CLIP_NAME.fullmatch(Path(name).name):
        duration_s = float(match["end_s"]) - float(match["start_s"])
        report.note("lengths taken from file names")
    else:
        raise RowRefused("no length in the file name", name)
    if duration_s <= 0:
        raise RowRefused("length of 0 or below", f"{name}: {duration_s} s")
    start_s, end_s = (number(value, "answer") for value in pair(row["answer"], "answer"))
    if end_s < start_s:
        raise RowRefused("interval that ends before it starts", f"[{start_s}, {end_s}]")
    interval = Interval(start_s, end_s + 1 / fps, source_interval=(start_s, end_s))
    return Stream(
        id=Path(name).stem,
        video=Video(str(out.absolute() / relative), duration_s),
        kind="event",
        domain="omnimmi",
        source=_SOURCE,
        fps=fps,
        query=(Query(0.0, question.strip()),),
        intervals=(fit_interval(interval, duration_s, fps, report),),
    )
