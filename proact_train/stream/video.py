"""Decoding videos at exact times with PyAV.

The frame on screen at `t` is the last one whose time stamp is at or before `t`; time stamps come
from demuxing, never from strides or average rates, so variable rates and 29.97 fps are exact. Only
what a wanted frame needs is decoded: frames that no other frame refers to are skipped unless
wanted, and a gap with a key frame in it is jumped. The pixels are those of sequential decoding.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from PIL import Image

from ..core.errors import VideoError
from ..core.types import TIME_TOLERANCE_S

# A jump drains and refills the decoder, so short gaps are decoded through.
_MIN_JUMP_PACKETS = 48


@dataclass(frozen=True)
class VideoInfo:
    """A video's shape: seconds from its first to behind its last frame, pixels, frames."""

    duration_s: float
    width: int
    height: int
    num_frames: int


@dataclass(frozen=True)
class _Index:
    """Time stamps in units of `time_base`.

    Attributes:
        key_frames: (time stamp, position among the packets) of the key frames, ascending.
        sorted_pts: time stamps of the frames that are shown, ascending.
        end_pts: where the last frame ends.
    """

    key_frames: list[tuple[int, int]]
    sorted_pts: list[int]
    time_base: Fraction
    end_pts: int

    @property
    def duration_s(self) -> float:
        return float((self.end_pts - self.sorted_pts[0]) * self.time_base)


def probe(path: str | Path) -> VideoInfo:
    """Reads a video's length and size by demuxing it whole (no decoding but of its first frame).

    Raises:
        VideoError: missing, empty, not a video, without a video track, without frames, cut off
            before the number of frames its header promises, or its first frame does not decode.
    """
    with _open(path) as container:
        index = _build_index(container, path)
    first_frame = next(decode_frames(path, [0.0]))
    width, height = first_frame.size
    return VideoInfo(index.duration_s, width, height, len(index.sorted_pts))


def decode_frames(path: str | Path, times_s: Sequence[float]) -> Iterator[Image.Image]:
    """Yields the RGB frame on screen at each time, upright, in the order of `times_s`.

    Args:
        times_s: ascending seconds from the first frame; equal neighbours get the same frame. A time
            past the end gets the last frame.

    Raises:
        VideoError: as `probe`, or a wanted frame does not decode.
    """
    times_s = list(times_s)
    assert all(a <= b for a, b in itertools.pairwise(times_s)), "times must ascend"
    if not times_s:
        return
    with _open(path) as container:
        index = _build_index(container, path)
    wanted = [_pts_on_screen(index, t_s) for t_s in times_s]
    position = 0
    for pts, image in _decode_wanted(path, index, sorted(set(wanted))):
        while position < len(wanted) and wanted[position] == pts:
            yield image
            position += 1
    if position < len(wanted):
        raise VideoError(
            f"{path} at {times_s[position]:.3f} s",
            "a frame that does not decode",
            "decodable video",
            "Re-encode the file (`ffmpeg -i IN -c:v libx264 OUT.mp4`) or leave it out.",
        )


def _pts_on_screen(index: _Index, t_s: float) -> int:
    offset = Fraction(t_s + TIME_TOLERANCE_S) / index.time_base
    position = bisect.bisect_right(index.sorted_pts, index.sorted_pts[0] + int(offset))
    return index.sorted_pts[max(0, position - 1)]


@contextlib.contextmanager
def _open(path: str | Path) -> Iterator[InputContainer]:
    path = Path(path)
    remedy = "Check the path, or fetch the file again."
    if not path.is_file():
        raise VideoError(str(path), "no such file", "a video file", remedy)
    if path.stat().st_size == 0:
        raise VideoError(str(path), "an empty file", "a video file", remedy)
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise VideoError(
                    str(path), "no video track", "a file with a video track", "Leave it out."
                )
            yield container
    except av.FFmpegError as error:
        raise VideoError(
            str(path), f"unreadable data ({error.strerror})", "a whole video file", remedy
        ) from None


def _build_index(container: InputContainer, path: str | Path) -> _Index:
    stream = container.streams.video[0]
    key_frames: list[tuple[int, int]] = []
    shown: set[int] = set()
    num_packets, end_pts = 0, 0
    for packet in container.demux(stream):
        if packet.pts is None or packet.size == 0:
            continue
        if packet.is_keyframe and not packet.is_corrupt:
            key_frames.append((packet.pts, num_packets))
        num_packets += 1
        if not packet.is_discard:  # an edit list may hide frames that others refer to
            shown.add(packet.pts)
            end_pts = max(end_pts, packet.pts + (packet.duration or 0))
    if not shown:
        raise VideoError(str(path), "a video track without frames", "frames", "Leave it out.")
    if num_packets < stream.frames:
        raise VideoError(
            str(path),
            f"{num_packets} of the {stream.frames} frames its header promises",
            "a whole file",
            "Fetch the file again: it was cut off.",
        )
    assert stream.time_base is not None
    ordered = sorted(shown)
    if end_pts <= ordered[-1]:  # no durations in the container: as long as the frame before
        end_pts = ordered[-1] + (ordered[-1] - ordered[-2] if len(ordered) > 1 else 1)
    return _Index(sorted(key_frames), ordered, stream.time_base, end_pts)


def _decode_wanted(
    path: str | Path, index: _Index, wanted: list[int]
) -> Iterator[tuple[int, Image.Image]]:
    """Yields (pts, image) of the wanted time stamps in order, decoding what they need."""
    remaining = set(wanted)
    with _open(path) as container:
        stream = container.streams.video[0]
        # Frame threads would apply a packet's skip mode to its neighbours.
        stream.thread_count = 1
        resume_at = _jump_target(index, wanted[0], 0)
        position = -1
        for packet in container.demux(stream):
            is_frame = packet.pts is not None and packet.size > 0
            position += is_frame
            if is_frame and position < resume_at:
                continue
            is_wanted = packet.pts in remaining
            stream.codec_context.skip_frame = "DEFAULT" if is_wanted else "NONREF"
            yield from _take(stream.codec_context.decode(packet), remaining)
            if not remaining:
                return
            if is_frame and (target := _jump_target(index, min(remaining), position + 1)):
                yield from _take(stream.codec_context.decode(None), remaining)
                stream.codec_context.flush_buffers()
                resume_at = target
        yield from _take(stream.codec_context.decode(None), remaining)


def _take(frames: list[av.VideoFrame], remaining: set[int]) -> Iterator[tuple[int, Image.Image]]:
    for frame in frames:
        if frame.pts in remaining:
            remaining.discard(frame.pts)
            yield frame.pts, _upright(frame)


def _upright(frame: av.VideoFrame) -> Image.Image:
    """The frame as RGB, turned as its display matrix says (degrees counter-clockwise)."""
    # One thread: on busy cores the conversion's helpers cost 16 times what they bring.
    image = frame.to_image(threads=1)
    return image.rotate(frame.rotation, expand=True) if frame.rotation else image


def _jump_target(index: _Index, pts: int, position: int) -> int:
    """The packet to go on from: the last key frame up to `pts` if that is far ahead, else 0."""
    at_or_before = bisect.bisect_right(index.key_frames, (pts, float("inf"))) - 1
    target = index.key_frames[at_or_before][1] if at_or_before >= 0 else 0
    return target if target - position >= _MIN_JUMP_PACKETS else 0
