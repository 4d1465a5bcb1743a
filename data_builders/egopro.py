"""EgoPro-Bench's folder (`annotations/{sft,rl,test}.jsonl`, `videos/`) -> streams.

Every field is explained in data_builders/README.md; a mapping file reads other names and units.

example:
  proact build egopro --root EgoPro-Bench --out data/egopro --mapping mapping.yaml
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from proact_train.core.contracts import check_stream, write_streams
from proact_train.core.errors import DataError
from proact_train.core.jsonl import parse_object
from proact_train.core.recipe import load_recipe
from proact_train.core.types import (
    EVENT_DOMAINS,
    INTENT_DOMAINS,
    Interval,
    Kind,
    Query,
    Source,
    Stream,
    Video,
    num_frames,
)

from .annotations import RowRefused, fit_interval, inside, link_videos, video_duration_s
from .egopro_mapping import Mapping, look_up, to_seconds
from .report import BuildReport, Drop

SPLITS = ("sft", "rl", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", type=Path, required=True, help="folder of the release")
    parser.add_argument("--out", type=Path, required=True, help="folder for streams and report")
    parser.add_argument("--mapping", type=Path, help="YAML of field names and time units")


def run(args: argparse.Namespace) -> None:
    mapping = Mapping() if args.mapping is None else load_recipe(args.mapping, Mapping)
    print(build_egopro(args.root, args.out, mapping))
    print(f"streams: {', '.join(str(path) for path in sorted(args.out.glob('*.jsonl')))}")


def build_egopro(root: Path, out: Path, mapping: Mapping) -> BuildReport:
    """Writes `OUT/{sft,rl,test}.jsonl` for the splits there are, and `OUT/report.json`.

    Raises:
        DataError: the root has no `videos/` or no annotation file.
    """
    paths = {split: root / "annotations" / f"{split}.jsonl" for split in SPLITS}
    paths = {split: path for split, path in paths.items() if path.is_file()}
    if not paths or not (root / "videos").is_dir():
        raise DataError(
            f"{root}",
            "no annotations/{sft,rl,test}.jsonl" if not paths else "no videos/",
            "EgoPro-Bench's folder",
            "Check --root; data_builders/README.md shows the layout.",
        )
    report, first_at = BuildReport("egopro"), dict[str, str]()
    splits: dict[str, list[Stream]] = {split: [] for split in paths}
    for split, path in paths.items():
        for where, line in tqdm(list(_numbered_lines(path)), unit="row", desc=f"EgoPro {split}"):
            row_report = BuildReport("egopro")  # counts only what is kept
            try:
                stream = _to_stream(_parse(where, line), split, root, out, mapping, row_report)
                if stream.id in first_at:
                    raise RowRefused("duplicated id", f"{stream.id} from {first_at[stream.id]}")
            except RowRefused as refused:
                report.drops.append(Drop(where, refused.reason, refused.detail))
                continue
            check_stream(where, stream)
            first_at[stream.id] = where
            splits[split].append(stream)
            for what, count in row_report.notes.items():
                report.note(what, count)
    link_videos(root / "videos", out)
    for split, streams in splits.items():
        write_streams(out / f"{split}.jsonl", streams)
        report.add_streams(streams)
    report.write(out / "report.json")
    return report


def _numbered_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as file:
        for line_no, line in enumerate(file, start=1):
            if line.strip():
                yield f"{path}:{line_no}", line


def _parse(where: str, line: bytes) -> dict[str, Any]:
    try:
        return parse_object(where, line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RowRefused("line that is not UTF-8", f"byte {error.start + 1}") from None
    except DataError as error:
        reason = "NaN or infinite number" if "is not JSON" in error.found else "line without JSON"
        raise RowRefused(reason, error.found) from None


def _to_stream(
    row: dict[str, Any], split: str, root: Path, out: Path, mapping: Mapping, report: BuildReport
) -> Stream:
    names = mapping.fields
    stream_id, video = look_up(row, names.id), look_up(row, names.video)
    if not isinstance(stream_id, str) or not stream_id:
        raise RowRefused("no id", repr(stream_id))
    domain, kind = _domain(look_up(row, names.domain), mapping)
    relative = inside(Path("videos"), video)
    duration_s = video_duration_s(root / relative)
    profile, memory = look_up(row, names.profile), look_up(row, names.memory) or []
    if isinstance(memory, str):
        memory = [memory]
    if profile is not None and not isinstance(profile, dict):
        raise RowRefused("profile that is no object", repr(profile)[:80])
    if not isinstance(memory, list) or not all(isinstance(entry, str) for entry in memory):
        raise RowRefused("memory that is no list of texts", repr(memory)[:80])
    query = _query(look_up(row, names.query), mapping)
    if kind == "event" and not query:
        raise RowRefused("event without a query", stream_id)
    return Stream(
        id=stream_id,
        video=Video(str(out.absolute() / relative), duration_s),
        kind=kind,
        domain=domain,
        source=Source("EgoPro-Bench", split, mapping.licence),
        fps=mapping.fps,
        query=query,
        profile=profile,
        memory=tuple(memory),
        intervals=_intervals(look_up(row, names.intervals), kind, duration_s, mapping, report),
        thoughts=_thoughts(
            look_up(row, names.thoughts), num_frames(duration_s, mapping.fps), report
        ),
    )


def _domain(value: Any, mapping: Mapping) -> tuple[str, Kind]:
    domain = mapping.domains.get(value, value) if isinstance(value, str) else None
    if domain in EVENT_DOMAINS:
        return domain, "event"
    if domain in INTENT_DOMAINS:
        return domain, "intent"
    raise RowRefused("unknown domain", repr(value))


def _query(value: Any, mapping: Mapping) -> tuple[Query, ...]:
    if value is None:
        return ()
    entries = [{"t_s": None, "text": value}] if isinstance(value, str) else value
    if not isinstance(entries, list):
        raise RowRefused("query that is no text", repr(value)[:80])
    queries = []
    for entry in entries:
        text = entry.get("text") if isinstance(entry, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise RowRefused("query that is no text", repr(entry)[:80])
        t_s = 0.0 if entry.get("t_s") is None else to_seconds(entry["t_s"], mapping)
        queries.append(Query(t_s, text.strip()))
    return tuple(queries)


def _intervals(
    value: Any, kind: Kind, duration_s: float, mapping: Mapping, report: BuildReport
) -> tuple[Interval, ...]:
    if not isinstance(value, list):
        raise RowRefused("intervals that are no list", repr(value)[:80])
    names, intervals = mapping.interval_fields, []
    for entry in value:
        if not isinstance(entry, dict):
            raise RowRefused("interval that is no object", repr(entry)[:80])
        start_s, end_s = (
            to_seconds(look_up(entry, name), mapping) for name in (names.start, names.end)
        )
        if end_s < start_s:
            raise RowRefused("interval that ends before it starts", f"[{start_s}, {end_s}]")
        reply, label = look_up(entry, names.reply), look_up(entry, names.label)
        if kind == "intent" and not (isinstance(reply, str) and reply.strip()):
            raise RowRefused("intent interval without a reply", repr(entry)[:80])
        interval = Interval(
            start_s,
            end_s + (1 / mapping.fps if mapping.closed_intervals else 0),
            reply=reply.strip() if kind == "intent" else None,
            label=label if isinstance(label, str) else None,
            source_interval=(start_s, end_s) if mapping.closed_intervals else None,
        )
        intervals.append(fit_interval(interval, duration_s, mapping.fps, report))
    return tuple(sorted(intervals, key=lambda interval: interval.start_s))


def _thoughts(value: Any, length: int, report: BuildReport) -> dict[int, str] | None:
    """Thoughts by frame index, from a list (one a frame) or an object keyed by frame index."""
    if value is None:
        return None
    if not isinstance(value, list | dict):
        raise RowRefused("thoughts that are no list or object", repr(value)[:80])
    pairs = enumerate(value) if isinstance(value, list) else value.items()
    thoughts = {}
    for key, text in pairs:
        if not isinstance(text, str) or not str(key).isascii() or not str(key).isdigit():
            raise RowRefused("thought that is no text of a frame", f"{key!r}: {text!r}"[:80])
        if int(key) < length:
            thoughts[int(key)] = text
        else:
            report.note("thoughts past the video's end left out")
    return thoughts
