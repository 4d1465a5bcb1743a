"""The files of the project: streams, SFT samples, RL decisions and predictions, with validation.

A bad line is a `DataError` with `file:line`. Paths inside a file are relative to it and may not
leave its folder; once loaded they are absolute, so that what `load_samples` and `load_decisions`
return trains as it is in trl's trainers and ms-swift. What is inside is explained in `types.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from . import types
from .errors import DataError
from .jsonl import parse_object, read_lines, write_jsonl
from .types import Decision, Interval, Prediction, SftSample, Stream

STREAM_SCHEMA = "proact.stream/1"
Record = TypeVar("Record", Stream, SftSample, Decision, Prediction)

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
for _noun in (
    types.Video,
    types.Source,
    types.Query,
    types.Interval,
    types.Stream,
    types.SftSample,
    types.Decision,
    types.PredictedTurn,
    types.Prediction,
):
    _noun.__pydantic_config__ = _STRICT  # type: ignore[attr-defined]

_STREAM, _SAMPLE = TypeAdapter(Stream), TypeAdapter(SftSample)
_DECISION, _PREDICTION = TypeAdapter(Decision), TypeAdapter(Prediction)


def load_streams(path: str | Path) -> list[Stream]:
    """Reads and validates streams; ids are unique, paths absolute.

    Raises:
        DataError: on the first bad line.
    """
    return list(_load(path, parse_stream, lambda stream: stream.id))


def load_samples(path: str | Path) -> list[SftSample]:
    """Reads SFT samples; image paths absolute. Raises DataError on the first bad line."""

    def parse(where: str, line: bytes, root: Path) -> SftSample:
        sample = _validate(_SAMPLE, where, line)
        _check_images(where, sample.messages, sample.images)
        return replace(sample, images=[_absolute(where, root, image) for image in sample.images])

    return list(_load(path, parse, lambda sample: sample.stream_id))


def load_decisions(path: str | Path) -> list[Decision]:
    """Reads RL decisions; image paths absolute, rows of one stream together.

    Raises:
        DataError: on the first bad line, or where a stream's rows are torn apart.
    """

    def parse(where: str, line: bytes, root: Path) -> Decision:
        decision = _validate(_DECISION, where, line)
        _check_images(where, decision.prompt, decision.images)
        if decision.prompt[-1]["role"] != "user":
            raise DataError(
                where,
                f"a prompt that ends with the {decision.prompt[-1]['role']}",
                "a prompt that ends with the user turn to answer",
                "Rebuild with `proact build rl`.",
            )
        return replace(
            decision, images=[_absolute(where, root, image) for image in decision.images]
        )

    decisions = list(_load(path, parse, lambda decision: decision.decision_id))
    _check_contiguous(path, [decision.stream_id for decision in decisions])
    return decisions


def load_predictions(path: str | Path) -> list[Prediction]:
    """Reads predictions, one a stream. Raises DataError on the first bad line."""

    def parse(where: str, line: bytes, root: Path) -> Prediction:
        return _validate(_PREDICTION, where, line)

    return list(_load(path, parse, lambda prediction: prediction.stream_id))


def write_streams(path: str | Path, streams: Iterable[Stream]) -> int:
    """Writes streams atomically, video paths relative to the file; returns how many."""
    return write_jsonl(path, (stream_to_json(stream, Path(path).parent) for stream in streams))


def write_samples(path: str | Path, samples: Iterable[SftSample]) -> int:
    """Writes SFT samples atomically, image paths relative to the file."""
    return write_jsonl(path, (_with_relative_images(sample, path) for sample in samples))


def write_decisions(path: str | Path, decisions: Iterable[Decision]) -> int:
    """Writes RL decisions atomically, image paths relative to the file."""
    return write_jsonl(path, (_with_relative_images(decision, path) for decision in decisions))


def write_predictions(path: str | Path, predictions: Iterable[Prediction]) -> int:
    """Writes predictions atomically, one line a stream."""
    return write_jsonl(path, (asdict(prediction) for prediction in predictions))


def parse_stream(where: str, line: bytes | str, root: Path) -> Stream:
    """Validates one stream line: schema version, types, times and the path of its video."""
    value = parse_object(where, line)
    schema = value.pop("schema", None)
    if schema != STREAM_SCHEMA:
        raise DataError(
            where,
            f"schema {schema!r}",
            f"{STREAM_SCHEMA!r}",
            "Rebuild the file with `proact build`.",
        )
    stream = _validate(_STREAM, where, json.dumps(value))
    check_stream(where, stream)
    video = replace(stream.video, path=_absolute(where, root, stream.video.path))
    return replace(stream, video=video)


def check_stream(where: str, stream: Stream) -> None:
    """Checks what types cannot say: positive length and rate, intervals inside the video.

    Raises:
        DataError: naming `where`, the stream's id and the value.
    """
    where = f"{where} (stream {stream.id!r})"
    if not stream.id:
        raise DataError(where, "an empty id", "a unique id", "Give every stream an id.")
    if stream.video.duration_s <= 0 or stream.fps <= 0:
        raise DataError(
            where,
            f"duration_s {stream.video.duration_s} and fps {stream.fps}",
            "both above 0",
            "Rebuild from a video that has frames.",
        )
    for idx, interval in enumerate(stream.intervals):
        check_interval(f"{where} intervals[{idx}]", interval, stream.video.duration_s)
    for frame_idx in stream.thoughts or {}:
        if not 0 <= frame_idx < stream.num_frames:
            raise DataError(
                where,
                f"a thought for frame {frame_idx}",
                f"frames 0 to {stream.num_frames - 1}",
                "Key thoughts by frame index.",
            )


def check_interval(where: str, interval: Interval, duration_s: float) -> None:
    """Checks that `0 <= start_s < end_s <= duration_s`. Raises DataError."""
    if interval.end_s <= interval.start_s:
        raise DataError(
            where,
            f"[{interval.start_s}, {interval.end_s})",
            "an end after the start",
            "Swap or correct the two times.",
        )
    if interval.start_s < 0 or interval.end_s > duration_s + types.TIME_TOLERANCE_S:
        raise DataError(
            where,
            f"[{interval.start_s}, {interval.end_s})",
            f"times inside the video, 0 to {duration_s} s",
            "Cut the interval at the video's end.",
        )


def stream_to_json(stream: Stream, root: Path) -> dict[str, Any]:
    """One stream as the object of its line, its video path relative to `root`."""
    value = asdict(stream)
    value["video"]["path"] = _relative(root, stream.video.path)
    return {"schema": STREAM_SCHEMA, **value}


def _load(
    path: str | Path, parse: Callable[[str, bytes, Path], Record], key: Callable[[Record], str]
) -> Iterator[Record]:
    root, seen = Path(path).absolute().parent, dict[str, str]()
    for where, line in read_lines(path):
        record = parse(where, line, root)
        if (first := seen.setdefault(key(record), where)) != where:
            raise DataError(
                where,
                f"id {key(record)!r}, which stands at {first} too",
                "every id once",
                "Rename or delete one of the two lines.",
            )
        yield record


def _validate(adapter: TypeAdapter[Record], where: str, line: bytes | str) -> Record:
    try:
        return adapter.validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the line"
        value = repr(first["input"])
        raise DataError(
            f"{where} {field}",
            value if len(value) <= 80 else value[:77] + "…",
            first["msg"][0].lower() + first["msg"][1:],
            "Correct this field; every field is explained in proact_train/core/types.py.",
        ) from None


def _absolute(where: str, root: Path, path: str) -> str:
    """Joins a path of a file to the file's folder; a path that leaves the folder is refused."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts:
        raise DataError(
            where,
            f"path {path!r}",
            f"a path relative to {root} that stays inside it",
            "Move the file below that folder or link it there.",
        )
    return str(root / pure)


def _relative(root: Path, path: str) -> str:
    relative = os.path.relpath(path, root.absolute()) if os.path.isabs(path) else path
    if relative.startswith(".."):
        raise DataError(
            path, "a file outside the output's folder", f"a file below {root}", "Link it there."
        )
    return PurePosixPath(relative).as_posix()


def _with_relative_images(record: SftSample | Decision, path: str | Path) -> dict[str, Any]:
    root, value = Path(path).parent, asdict(record)
    value["images"] = [_relative(root, image) for image in record.images]
    return value


def _check_images(where: str, messages: list[types.Message], images: list[str]) -> None:
    num_placeholders = sum(
        part.get("type") == "image" for message in messages for part in message["content"]
    )
    if num_placeholders != len(images):
        raise DataError(
            where,
            f"{num_placeholders} image places for {len(images)} images",
            "one image for each place",
            "Rebuild the file.",
        )


def _check_contiguous(path: str | Path, stream_ids: list[str]) -> None:
    closed, current = set[str](), None
    for row, stream_id in enumerate(stream_ids, start=1):
        if stream_id == current:
            continue
        if stream_id in closed:
            raise DataError(
                f"{path} (row {row})",
                f"stream {stream_id!r} again after another stream's rows",
                "the rows of one stream together",
                "Sort the file by stream.",
            )
        if current is not None:
            closed.add(current)
        current = stream_id
