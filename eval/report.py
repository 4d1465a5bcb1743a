"""What a report page shows of an evaluation: timelines of gold and predicted actions, score rows.

Plain data only; `proact_train/page` makes HTML of it and must escape the texts (model output).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proact_train.core.types import Action, Prediction, Stream
from proact_train.stream.timeline import interval_frames

from .protocols.egopro import frame_idx_of


@dataclass(frozen=True)
class TimelineFrame:
    """One frame of a timeline.

    Attributes:
        is_gold: whether the frame lies inside a gold interval.
        gold_reply: the interval's reply, on its first frame only.
        action: what the model did; None without a turn.
        text: the reply, or the raw answer where it broke the grammar.
        image: path of the frame's picture, None where none was given.
    """

    t_s: float
    is_gold: bool
    gold_reply: str | None
    action: Action | None
    thought: str | None
    text: str | None
    image: Path | None


@dataclass(frozen=True)
class Timeline:
    """A stream with what was told, what was right and what the model did."""

    stream_id: str
    kind: str
    domain: str
    told: tuple[str, ...]
    frames: tuple[TimelineFrame, ...]


def build_timelines(
    streams: Sequence[Stream],
    predictions: Sequence[Prediction],
    images: Mapping[str, Sequence[Path]] | None = None,
) -> list[Timeline]:
    """Lays gold and prediction of each stream side by side, in the order of `streams`.

    Args:
        images: stream id -> picture of each frame; streams may be missing.
    """
    by_id = {prediction.stream_id: prediction for prediction in predictions}
    images = images or {}
    return [
        _build_timeline(stream, by_id.get(stream.id), images.get(stream.id, ()))
        for stream in streams
    ]


def pick_streams(streams: Sequence[Stream], num_per_domain: int) -> list[Stream]:
    """The first streams with gold of each domain, so that a page shows every kind of task."""
    picked: dict[str, list[Stream]] = {}
    for stream in streams:
        chosen = picked.setdefault(stream.domain, [])
        if stream.intervals and len(chosen) < num_per_domain:
            chosen.append(stream)
    return [stream for domain in sorted(picked) for stream in picked[domain]]


def score_rows(scores: Mapping[str, Mapping[str, Any]], metric: str = "f1") -> list[list[str]]:
    """A table of one metric in percent: a header, then a row for each Scores object.

    Args:
        scores: row name (such as "after SFT") -> Scores object.
    """
    groups = list(dict.fromkeys(name for value in scores.values() for name in value["groups"]))
    rows = [["", *groups, "n", "unscored"]]
    for name, value in scores.items():
        cells = [value["groups"].get(group, {}).get(metric) for group in groups]
        shown = ["-" if cell is None else f"{100 * cell:.1f}" for cell in cells]
        rows.append([name, *shown, str(value["n"]), str(value["unscored"])])
    return rows


def _build_timeline(
    stream: Stream, prediction: Prediction | None, images: Sequence[Path]
) -> Timeline:
    turns = prediction.turns if prediction else ()
    by_frame = {frame_idx_of(turn.t_s, stream.fps): turn for turn in turns}
    gold: set[int] = set()
    replies: dict[int, str | None] = {}
    for interval in stream.intervals:
        owned = interval_frames(interval, stream.fps, stream.num_frames)
        gold.update(owned)
        if owned:
            replies[owned[0]] = interval.reply
    frames = []
    for idx in range(stream.num_frames):
        turn = by_frame.get(idx)
        text = turn and (turn.raw if turn.action == "invalid" else turn.reply)
        frames.append(
            TimelineFrame(
                t_s=stream.frame_time_s(idx),
                is_gold=idx in gold,
                gold_reply=replies.get(idx),
                action=turn.action if turn else None,
                thought=turn.thought if turn else None,
                text=text,
                image=images[idx] if idx < len(images) else None,
            )
        )
    told = (*(query.text for query in stream.query), *stream.memory)
    return Timeline(stream.id, stream.kind, stream.domain, told, tuple(frames))
