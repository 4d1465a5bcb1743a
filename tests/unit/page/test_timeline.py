"""Strips: gold spans, pictures, signs and outcomes."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from proact_train.page.timeline import (
    ACTION_SIGNS,
    THUMBNAIL_PX,
    GoldSpan,
    Lane,
    LaneCell,
    Strip,
    StripFrame,
    gold_spans,
    picture,
    render_strip,
    render_strip_key,
)


def frames(gold: str) -> tuple[StripFrame, ...]:
    """0 outside, 1 inside, r the first frame of an interval with a reply."""
    return tuple(
        StripFrame(float(idx), mark != "0", "say" if mark == "r" else None)
        for idx, mark in enumerate(gold)
    )


def strip(gold: str, *cells: LaneCell) -> Strip:
    return Strip("s", "facts", (), "alert", frames(gold), (Lane("after SFT", cells, "note"),))


def test_gold_spans_by_hand():
    assert gold_spans(frames("0110")) == [
        GoldSpan(False, 1, None),
        GoldSpan(True, 2, None),
        GoldSpan(False, 1, None),
    ]
    assert gold_spans(frames("r1r1")) == [GoldSpan(True, 2, "say"), GoldSpan(True, 2, "say")]
    assert gold_spans(()) == []


def test_actions_and_outcomes_are_told_by_sign_and_word():
    html = render_strip(
        strip(
            "0111",
            LaneCell("alert", "false_alarm"),
            LaneCell("alert", "hit", "see the cup"),
            LaneCell("invalid", "miss", None, "no thought"),
            LaneCell(None, "unscored"),
        )
    )
    assert len(set(ACTION_SIGNS.values())) == len(ACTION_SIGNS)
    assert html.count("▲ false alarm</div>") == 1
    assert html.count("✓ hit</div>") == 1
    assert html.count("○ miss</div>") == 1
    assert html.count("not scored</div>") == 1
    assert "no turn" in html
    assert html.count("see the cup") == 2, "in the strip and in the text under it"
    assert html.count("no thought") == 2
    assert 'colspan="3"' in html


def test_times_are_short():
    shown = Strip("s", "", (), "alert", (StripFrame(1 / 3, False),), ())
    assert "0.333 s" in render_strip(shown)


def test_a_stream_without_lanes_or_frames_renders():
    assert "no picture" in render_strip(Strip("s", "", (), "alert", frames("0"), ()))
    assert "<table" in render_strip(Strip("s", "", (), "alert", (), ()))


def test_a_lane_of_another_length_is_a_bug():
    with pytest.raises(AssertionError, match="a cell for each frame"):
        render_strip(strip("00", LaneCell("silence", "quiet")))


def test_a_picture_is_a_small_jpeg(tmp_path):
    path = tmp_path / "frame.png"
    Image.new("RGBA", (640, 320), (255, 0, 0, 255)).save(path)
    uri = picture(path)
    assert uri is not None
    head, _, body = uri.partition(",")
    assert head == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(body))) as image:
        assert image.format == "JPEG"
        assert image.size == (THUMBNAIL_PX, THUMBNAIL_PX // 2)


def test_no_picture_without_a_file(tmp_path):
    assert picture(None) is None
    assert picture(tmp_path / "absent.jpg") is None


def test_the_key_names_every_sign():
    key = render_strip_key()
    for word in ("silence", "alert", "reply", "invalid", "no turn", "hit", "miss", "false alarm"):
        assert word in key
