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
VIDEO_FPS = 2
_SKIN, _BOARD, _OUTLINE = (235, 190, 160), (60, 55, 60), (15, 15, 15)
# Each thing fills one image token of a 64 x 64 px frame; hands come from the two below.
_SLOT_CENTRES = ((33, 34), (95, 34))
_RADIUS = 25


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
    elif thing.shape == "cone":
        draw.polygon([(x, y - r), (x + r, y + r), (x - r, y + r)], fill, _OUTLINE, 2)
    elif thing.shape == "cup":
        corners = [(x - r, y - r), (x + r, y - r), (x + 10, y + r), (x - 10, y + r)]
        draw.polygon(corners, fill, _OUTLINE, 2)
    elif thing.shape == "ring":
        draw.ellipse((x - r, y - r, x + r, y + r), None, fill, 11)
    else:
        cloth = [(x - r + 6, y - r), (x + r, y - 4), (x - r + 6, y + 6)]
        draw.polygon(cloth, fill, _OUTLINE, 1)
        draw.rectangle((x - r, y - r, x - r + 6, y + r), fill)


def _draw_board(draw: ImageDraw.ImageDraw, centre: tuple[int, int]) -> None:
    x, y = centre
    draw.rectangle((x - 29, y - 31, x + 29, y + 31), _BOARD, _OUTLINE, 2)


def _draw_hand(draw: ImageDraw.ImageDraw, hand: Hand, centre: tuple[int, int]) -> None:
    """A forearm from below: a grab covers the thing's lower half, a tap touches it."""
    x, y = centre
    if hand.gesture == "grabs":
        draw.rectangle((x - 12, y + 40, x + 12, SIDE_PX), _SKIN)
        draw.ellipse((x - 24, y + 18, x + 24, y + 56), _SKIN, _OUTLINE, 1)
        for finger in (-20, -7, 7, 20):
            draw.line((x + finger, y + 30, x + finger * 0.8, y + 10), _SKIN, 8)
    else:
        draw.rectangle((x - 12, y + 76, x + 12, SIDE_PX), _SKIN)
        draw.ellipse((x - 15, y + 62, x + 15, y + 88), _SKIN, _OUTLINE, 1)
        draw.line((x, y + 70, x, y + 22), _SKIN, 8)
