"""Test clips whose frame index is coded in luminance blocks, so that pixels prove their frame."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

NUM_BITS, BLOCK_PX, WIDTH, HEIGHT = 12, 16, 96, 64


def make_clip(
    path: Path,
    pts: Sequence[int],
    time_base: Fraction = Fraction(1, 90000),
    options: dict[str, str] | None = None,
    rate: int = 30,
) -> Path:
    """Writes an H.264 file with one frame for each presentation time stamp."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options=options or {})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = time_base
        for idx, stamp in enumerate(pts):
            frame = av.VideoFrame.from_ndarray(coded_frame(idx), format="rgb24")
            frame.pts, frame.time_base = stamp, time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def coded_frame(frame_idx: int) -> np.ndarray:
    """White blocks are ones, the lowest bit first."""
    image = np.full((HEIGHT, WIDTH, 3), 128, dtype=np.uint8)
    for bit in range(NUM_BITS):
        row, column = divmod(bit, WIDTH // BLOCK_PX)
        value = 255 if frame_idx >> bit & 1 else 0
        image[
            row * BLOCK_PX : (row + 1) * BLOCK_PX, column * BLOCK_PX : (column + 1) * BLOCK_PX
        ] = value
    return image


def frame_index(image: Image.Image) -> int:
    """Reads the frame index back from the pixels."""
    pixels = np.asarray(image.convert("L"))
    index = 0
    for bit in range(NUM_BITS):
        row, column = divmod(bit, WIDTH // BLOCK_PX)
        block = pixels[
            row * BLOCK_PX + 4 : (row + 1) * BLOCK_PX - 4,
            column * BLOCK_PX + 4 : (column + 1) * BLOCK_PX - 4,
        ]
        index |= int(block.mean() > 127) << bit
    return index
