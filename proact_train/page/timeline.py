"""A stream as a strip: its pictures, the gold band, and a lane for each model that watched it.

Actions differ by sign and word, outcomes by sign, word and border; colour only repeats them. Which
outcome a frame has is the protocol's business and is given.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from markupsafe import Markup
from PIL import Image

from ..core.types import Action
from .render import render_fragment

Outcome = Literal["hit", "miss", "false_alarm", "quiet", "unscored"]

ACTION_SIGNS: dict[Action | None, str] = {
    "silence": "–",
    "alert": "!",
    "reply": "“",
    "invalid": "×",
    None: "?",
}
OUTCOME_WORDS: dict[Outcome, str] = {
    "hit": "✓ hit",
    "miss": "○ miss",
    "false_alarm": "▲ false alarm",
    "quiet": "",
    "unscored": "not scored",
}
THUMBNAIL_PX = 144
_JPEG_QUALITY = 88


@dataclass(frozen=True)
class StripFrame:
    """One frame of the stream.

    Attributes:
        gold_text: what to say, on the first frame of its interval.
        image: path of the picture; None, or a path without a file, leaves an empty place.
    """

    t_s: float
    is_gold: bool
    gold_text: str | None = None
    image: Path | None = None


@dataclass(frozen=True)
class LaneCell:
    """What one model did at one frame; `action` is None where it has no turn."""

    action: Action | None
    outcome: Outcome
    thought: str | None = None
    text: str | None = None

    @property
    def sign(self) -> str:
        return ACTION_SIGNS[self.action]

    @property
    def outcome_word(self) -> str:
        return OUTCOME_WORDS[self.outcome]


@dataclass(frozen=True)
class Lane:
    """One model's answers, a cell for each frame; `note` sums them up."""

    name: str
    cells: tuple[LaneCell, ...]
    note: str = ""


@dataclass(frozen=True)
class Strip:
    """A stream and the lanes under it.

    Attributes:
        told: what the assistant was told, a paragraph each.
        gold_word: what the gold band asks for, such as `alert`.
    """

    title: str
    facts: str
    told: tuple[str, ...]
    gold_word: str
    frames: tuple[StripFrame, ...]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class GoldSpan:
    """Frames side by side that are all inside one gold interval, or all outside."""

    is_gold: bool
    num_frames: int
    text: str | None


def render_strip(strip: Strip) -> Markup:
    """The strip as a table that scrolls sideways in its own box, and its answers as plain text."""
    for lane in strip.lanes:
        assert len(lane.cells) == len(strip.frames), f"{lane.name}: a cell for each frame"
    return render_fragment(
        "strip.html.j2",
        strip=strip,
        spans=gold_spans(strip.frames),
        pictures=[picture(frame.image) for frame in strip.frames],
        side=THUMBNAIL_PX,
    )


def render_strip_key() -> Markup:
    """The key to signs and borders, once for all strips of a page."""
    actions = [(sign, name or "no turn") for name, sign in ACTION_SIGNS.items()]
    outcomes = [(name, word) for name, word in OUTCOME_WORDS.items() if word]
    return render_fragment("strip_key.html.j2", actions=actions, outcomes=outcomes)


def gold_spans(frames: tuple[StripFrame, ...]) -> list[GoldSpan]:
    """Joins neighbouring frames; a frame with a gold text of its own begins a new span."""
    spans: list[GoldSpan] = []
    for frame in frames:
        last = spans[-1] if spans else None
        if last and last.is_gold == frame.is_gold and not (frame.is_gold and frame.gold_text):
            spans[-1] = GoldSpan(last.is_gold, last.num_frames + 1, last.text)
        else:
            spans.append(GoldSpan(frame.is_gold, 1, frame.gold_text))
    return spans


def picture(path: Path | None, side_px: int = THUMBNAIL_PX) -> Markup | None:
    """A picture as a small JPEG in a `data:` URI; None where there is no file."""
    if path is None or not path.is_file():
        return None
    with Image.open(path) as image:
        small = image.convert("RGB")
    small.thumbnail((side_px, side_px))
    buffer = io.BytesIO()
    small.save(buffer, format="JPEG", quality=_JPEG_QUALITY)
    return Markup("data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii"))
