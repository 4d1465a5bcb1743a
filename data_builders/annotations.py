"""From a source's annotations to streams: what every builder of an external source shares.

A row that cannot become a stream is a counted drop with its reason, never silent. Rows are refused
by raising `RowRefused`; what is changed but kept is noted in the report.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from proact_train.core.errors import DataError, VideoError
from proact_train.core.types import TIME_TOLERANCE_S, Interval
from proact_train.stream.timeline import interval_frames
from proact_train.stream.video import probe

from .report import BuildReport


class RowRefused(Exception):
    """A source row that becomes no stream; `reason` is what the report counts by."""

    def __init__(self, reason: str, detail: str):
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


def link_videos(source: Path, out: Path) -> None:
    """Makes `OUT/videos` a link to the source's videos, so that relative paths hold.

    Raises:
        DataError: `OUT/videos` is there and is something else.
    """
    link, source = out / "videos", source.resolve()
    if link.is_symlink() and link.resolve() == source:
        return
    if link.exists() or link.is_symlink():
        if link.resolve() == source:
            return
        raise DataError(
            str(link), "something else there", f"a link to {source}", "Use another output folder."
        )
    out.mkdir(parents=True, exist_ok=True)
    os.symlink(source, link)


def inside(root: Path, path: Any) -> Path:
    """`root / path`, refused if it is no relative path or leaves the root."""
    if not isinstance(path, str) or not path:
        raise RowRefused("no video path", repr(path))
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise RowRefused("path leaves the root", path)
    return root / pure


def video_duration_s(path: Path) -> float:
    """The length of a video; one that is missing or cannot be read refuses its row."""
    try:
        return probe(path).duration_s
    except VideoError as error:
        raise RowRefused(f"unusable video: {_kind_of(error)}", str(error)) from None


def fit_interval(
    interval: Interval, duration_s: float, fps: float, report: BuildReport
) -> Interval:
    """Cuts an interval at the video's end and widens one that owns no frame; both are counted.

    Raises:
        RowRefused: times that are not finite, an end before the start, or wholly outside.
    """
    start_s, end_s = interval.start_s, interval.end_s
    span = f"[{start_s}, {end_s}) in a video of {duration_s:.3f} s"
    if not (math.isfinite(start_s) and math.isfinite(end_s)):
        raise RowRefused("time that is not a number", span)
    if end_s <= start_s:
        raise RowRefused("interval that ends before it starts", span)
    if start_s >= duration_s - TIME_TOLERANCE_S or end_s <= 0:
        raise RowRefused("interval outside the video", span)
    if end_s > duration_s + TIME_TOLERANCE_S or start_s < 0:
        report.note("intervals cut at the video's end" if start_s >= 0 else "intervals cut at 0")
        start_s, end_s = max(0.0, start_s), min(end_s, duration_s)
    fitted = replace(interval, start_s=start_s, end_s=min(end_s, duration_s))
    num_frames = max(1, math.ceil(duration_s * fps - TIME_TOLERANCE_S))
    if not interval_frames(fitted, fps, num_frames):
        report.note("intervals widened to the frame on screen at their start")
        fitted = replace(fitted, start_s=math.floor(start_s * fps + TIME_TOLERANCE_S) / fps)
    return fitted


def number(value: Any, what: str) -> float:
    """A finite number; anything else refuses the row."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RowRefused("time that is not a number", f"{what} {value!r}")
    return float(value)


def pair(value: Any, what: str) -> Sequence[Any]:
    """Two values; anything else refuses the row."""
    if not isinstance(value, list) or len(value) != 2:
        raise RowRefused("interval that is no pair of times", f"{what} {value!r}")
    return value


def _kind_of(error: VideoError) -> str:
    found = error.found.partition(" (")[0]
    return "cut off" if "its header promises" in found else found
