"""Rendering the toy world: one picture a video frame, real H.264 in an mp4 file."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
from av.codec.context import Flags
from PIL import Image, ImageDraw

from .world import COLOURS, PLACES, Frame, Hand, Thing

SIDE_PX = 128
VIDEO_FPS = 4
_SKIN, _BOARD, _OUTLINE = (235, 190, 160), (60, 55, 60), (25, 25, 25)
_SLOT_CENTRES = ((34, 56), (94, 56))
_RADIUS = 21


def render_video(path: Path, frames: Sequence[Frame], place: str, seed: int) -> None:
    """Writes one second of video for each frame; the camera drifts a little all the time.

    The same arguments give the same bytes.
    """
    rng = random.Random(seed)
    phases = [rng.uniform(0, 2 * math.pi) for _ in range(2)]
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp.mp4")
    with av.open(str(temporary), "w", options={"fflags": "+bitexact"}) as container:
        options = {"crf": "20", "preset": "veryfast", "threads": "1"}
        stream = container.add_stream("libx264", rate=VIDEO_FPS, options=options)
        stream.width = stream.height = SIDE_PX
        stream.pix_fmt = "yuv420p"
        stream.codec_context.flags |= Flags.bitexact
        for idx in range(len(frames) * VIDEO_FPS):
            t_s = idx / VIDEO_FPS
            drift = tuple(round(4 * math.sin(0.9 * t_s + phase)) for phase in phases)
            picture = draw_frame(frames[idx // VIDEO_FPS], place, drift)
            frame = av.VideoFrame.from_image(picture)
            frame.pts, frame.time_base = idx, Fraction(1, VIDEO_FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    temporary.replace(path)


def draw_frame(frame: Frame, place: str, drift: tuple[int, ...] = (0, 0)) -> Image.Image:
    """Draws one picture; `drift` shifts everything in view by (x, y) pixels."""
    base, stripe, _ = PLACES[place]
    image = Image.new("RGB", (SIDE_PX, SIDE_PX), base)
    draw = ImageDraw.Draw(image)
    for y in range(-16 + drift[1], SIDE_PX, 16):
        draw.rectangle((0, y, SIDE_PX, y + 7), fill=stripe)
    for slot, (x, y) in enumerate(_SLOT_CENTRES):
        centre = (x + drift[0], y + drift[1])
        if thing := frame.slots[slot]:
            _draw_thing(draw, thing, centre)
        if frame.is_occluded[slot]:
            _draw_board(draw, centre)
    if frame.hand:
        x, y = _SLOT_CENTRES[frame.hand.slot]
        _draw_hand(draw, frame.hand, (x + drift[0], y + drift[1]))
    return image


def _draw_thing(draw: ImageDraw.ImageDraw, thing: Thing, centre: tuple[int, int]) -> None:
    x, y = centre
    r, fill = _RADIUS, COLOURS[thing.colour]
    if thing.shape == "ball":
        draw.ellipse((x - r, y - r, x + r, y + r), fill, _OUTLINE, 2)
    elif thing.shape == "box":
        draw.rectangle((x - r, y - r, x + r, y + r), fill, _OUTLINE, 2)
    elif thing.shape == "cone":
        draw.polygon([(x, y - r), (x + r, y + r), (x - r, y + r)], fill, _OUTLINE, 2)
    elif thing.shape == "ring":
        draw.ellipse((x - r, y - r, x + r, y + r), None, _OUTLINE, 13)
        draw.ellipse((x - r + 2, y - r + 2, x + r - 2, y + r - 2), None, fill, 9)
    else:
        angles = [math.pi * (idx / 5 - 0.5) for idx in range(10)]
        radii = [r + 3 if idx % 2 == 0 else 10 for idx in range(10)]
        points = [
            (x + s * math.cos(a), y + s * math.sin(a)) for a, s in zip(angles, radii, strict=True)
        ]
        draw.polygon(points, fill, _OUTLINE, 2)


def _draw_board(draw: ImageDraw.ImageDraw, centre: tuple[int, int]) -> None:
    x, y = centre
    draw.rectangle((x - 27, y - 29, x + 27, y + 29), _BOARD, _OUTLINE, 2)


def _draw_hand(draw: ImageDraw.ImageDraw, hand: Hand, centre: tuple[int, int]) -> None:
    """A forearm from below; a grabbing hand covers the thing's lower half, a pointing one not."""
    x, y = centre
    if hand.gesture == "grabs":
        draw.rectangle((x - 10, y + 26, x + 10, SIDE_PX), _SKIN)
        draw.ellipse((x - 20, y + 10, x + 20, y + 38), _SKIN, _OUTLINE, 1)
        for finger in (-18, -6, 6, 18):
            draw.line((x + finger, y + 22, x + finger * 0.8, y + 2), _SKIN, 7)
    else:
        draw.rectangle((x - 10, y + 52, x + 10, SIDE_PX), _SKIN)
        draw.ellipse((x - 13, y + 42, x + 13, y + 62), _SKIN, _OUTLINE, 1)
        draw.line((x, y + 48, x, y + 26), _SKIN, 6)
