"""A frame store: the frames of streams as JPEG files, made once, resumed where some are missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from ..core.errors import DataError
from ..core.jsonl import atomic_write, write_json
from ..core.types import Stream
from .resize import smart_resize
from .video import decode_frames

_SETTINGS = "frames.json"


@dataclass(frozen=True)
class FrameStore:
    """Frames under `root/STREAM_ID/000012.jpg`, resized to at most `max_pixels`.

    One store holds one pixel budget and one JPEG quality; they stand in `root/frames.json`.
    """

    root: Path
    max_pixels: int
    jpeg_quality: int = 95

    def ensure(self, stream: Stream) -> list[Path]:
        """Decodes the frames that are missing and returns the paths of all, in order.

        Raises:
            DataError: the store was made with other settings, or the id is no folder name.
            VideoError: the video does not decode.
        """
        self._check_settings()
        paths = [self.frame_path(stream.id, idx) for idx in range(stream.num_frames)]
        missing = [idx for idx, path in enumerate(paths) if not path.is_file()]
        for idx, image in zip(missing, read_frames(stream, self.max_pixels, missing), strict=True):
            with atomic_write(paths[idx], "wb") as file:
                image.save(file, format="JPEG", quality=self.jpeg_quality)
        return paths

    def frame_path(self, stream_id: str, frame_idx: int) -> Path:
        """Where a frame of a stream lies; ids that are no safe folder name are refused."""
        if not re.fullmatch(r"[\w.\-+@=,]+", stream_id) or stream_id.strip(".") == "":
            raise DataError(
                f"stream {stream_id!r}",
                "an id that is no folder name",
                "letters, digits and _.-+@=,",
                "Rename the stream.",
            )
        return self.root / stream_id / f"{frame_idx:06d}.jpg"

    def _check_settings(self) -> None:
        settings = {"max_pixels": self.max_pixels, "jpeg_quality": self.jpeg_quality}
        path = self.root / _SETTINGS
        if not path.is_file():
            write_json(path, settings)
            return
        found = json.loads(path.read_text(encoding="utf-8"))
        if found != settings:
            raise DataError(
                str(path),
                f"frames made with {found}",
                f"{settings}",
                "Use the same settings, or another output folder.",
            )


def read_frames(
    stream: Stream, max_pixels: int, frames: Sequence[int] | None = None
) -> Iterator[Image.Image]:
    """Decodes frames of a stream directly, resized to at most `max_pixels`.

    Args:
        frames: ascending frame indices; all of them if None.

    Raises:
        VideoError: the video does not decode.
    """
    indices = range(stream.num_frames) if frames is None else frames
    times_s = [stream.frame_time_s(idx) for idx in indices]
    for image in decode_frames(stream.video.path, times_s):
        height, width = smart_resize(image.height, image.width, max_pixels)
        size = (width, height)
        yield image if image.size == size else image.resize(size, Image.Resampling.BICUBIC)
