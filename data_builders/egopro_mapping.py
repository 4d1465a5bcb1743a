"""The mapping file of `proact build egopro`: other field names and time units onto ours."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, model_validator

from proact_train.core.recipe import Recipe

from .annotations import RowRefused, number

TimeUnit = Literal["seconds", "milliseconds", "clock", "frames"]
_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:\.\d+)?)")


class FieldNames(Recipe):
    """Where a row holds what; dots reach into objects (`meta.clip`)."""

    id: str = "id"
    video: str = "video"
    domain: str = "domain"
    query: str = "query"
    profile: str = "profile"
    memory: str = "memory"
    intervals: str = "intervals"
    thoughts: str = "thoughts"


class IntervalFieldNames(Recipe):
    """Where an interval holds what."""

    start: str = "start"
    end: str = "end"
    reply: str = "reply"
    label: str = "label"


class Mapping(Recipe):
    """How a release is read; the defaults are the layout of data_builders/README.md."""

    fields: FieldNames = FieldNames()
    interval_fields: IntervalFieldNames = IntervalFieldNames()
    # clock: "MM:SS" or "HH:MM:SS", with or without decimals.
    time_unit: TimeUnit = "seconds"
    # Frames a second of the time stamps, for time_unit frames alone.
    frame_rate: float | None = Field(default=None, gt=0)
    # Whether [start, end] holds its end; then end + 1/fps is the half-open end.
    closed_intervals: bool = False
    fps: float = Field(default=1.0, gt=0)
    # The release's domain name -> ours.
    domains: dict[str, str] = Field(default_factory=dict)
    licence: str = "unknown"

    @model_validator(mode="after")
    def _check(self) -> Mapping:
        if (self.time_unit == "frames") != (self.frame_rate is not None):
            raise ValueError("frame_rate goes with time_unit: frames, and only with it")
        return self


def look_up(row: dict[str, Any], name: str) -> Any:
    """The value behind a dotted name; None if there is none."""
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def to_seconds(value: Any, mapping: Mapping) -> float:
    """A time of the release in seconds. Raises RowRefused if it is none."""
    if mapping.time_unit == "clock":
        match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise RowRefused("time that is not HH:MM:SS", repr(value))
        return int(match[1] or 0) * 3600 + int(match[2]) * 60 + float(match[3])
    unit_s = {
        "seconds": 1.0,
        "milliseconds": 1e-3,
        "frames": 1 / (mapping.frame_rate or 1.0),
    }[mapping.time_unit]
    return number(value, "time") * unit_s
