"""Decoding: the frame on screen at t, proved by frame numbers coded in pixels."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proact_train.core.errors import VideoError
from proact_train.stream.video import decode_frames, probe

from .clips import frame_index, make_clip

SECOND = 90000
_rng = np.random.default_rng(0)
CLIPS: dict[str, tuple[list[int], dict[str, str]]] = {
    "30 fps": ([i * 3000 for i in range(150)], {}),
    "29.97 fps": ([i * 3003 for i in range(150)], {}),
    "many B-frames": ([i * 3000 for i in range(150)], {"bf": "7", "b-pyramid": "normal"}),
    "open GOPs": (
        [i * 3000 for i in range(240)],
        {"x264-params": "open-gop=1:keyint=25:bframes=5"},
    ),
    "short GOPs": ([i * 3000 for i in range(400)], {"g": "15"}),
    "one GOP": ([i * 3000 for i in range(300)], {"g": "9999"}),
    "variable rate": (np.cumsum(_rng.integers(500, 20000, 150)).tolist(), {}),
    "first frame late": ([5 * SECOND + i * 3000 for i in range(90)], {"bf": "3"}),
    "one frame": ([0], {}),
}


@pytest.fixture(scope="module", params=CLIPS)
def clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    pts, options = CLIPS[request.param]
    path = make_clip(tmp_path_factory.mktemp("clips") / "clip.mp4", pts, options=options)
    return path, [(stamp - pts[0]) / SECOND for stamp in pts]


def on_screen(starts_s: list[float], t_s: float) -> int:
    return max(idx for idx, start_s in enumerate(starts_s) if start_s <= t_s + 1e-6)


def test_one_frame_a_second_is_exact(clip: tuple[Path, list[float]]):
    path, starts_s = clip
    times_s = [float(second) for second in range(int(starts_s[-1]) + 2)]
    found = [frame_index(image) for image in decode_frames(path, times_s)]
    assert found == [on_screen(starts_s, t_s) for t_s in times_s]


def test_pixels_are_those_of_sequential_decoding(clip: tuple[Path, list[float]]):
    path, starts_s = clip
    with av.open(str(path)) as container:
        sequential = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(sequential) == len(starts_s)
    for step in (1, 7, 100):
        chosen = list(range(0, len(starts_s), step))
        for idx, image in zip(
            chosen, decode_frames(path, [starts_s[i] for i in chosen]), strict=True
        ):
            assert np.array_equal(np.asarray(image), sequential[idx]), (step, idx)


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_ascending_times_are_exact(clip: tuple[Path, list[float]], data: st.DataObject):
    path, starts_s = clip
    times = st.floats(0, starts_s[-1] + 1, allow_nan=False)
    times_s = sorted(data.draw(st.lists(times, max_size=12)))
    found = [frame_index(image) for image in decode_frames(path, times_s)]
    assert found == [on_screen(starts_s, t_s) for t_s in times_s]


def test_probe_counts_frames_and_seconds(tmp_path: Path):
    info = probe(make_clip(tmp_path / "clip.mp4", [i * 3003 for i in range(150)]))
    assert (info.num_frames, info.width, info.height) == (150, 96, 64)
    assert info.duration_s == pytest.approx(150 * 1001 / 30000, abs=0.04)


def make_audio(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate, frame.time_base = 16000, Fraction(1, 16000)
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def broken_files(folder: Path) -> dict[str, tuple[Path, str]]:
    whole = make_clip(folder / "whole.mp4", [i * 3000 for i in range(90)])
    front = make_clip(folder / "front.mp4", [i * 3000 for i in range(90)], options={"g": "10"})
    with (
        av.open(str(front)) as source,
        av.open(str(folder / "fast.mp4"), "w", options={"movflags": "faststart"}) as target,
    ):
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    paths = {name: folder / f"{name}.mp4" for name in ("no_index", "cut", "empty", "text", "none")}
    paths["no_index"].write_bytes(whole.read_bytes()[:-800])
    fast = (folder / "fast.mp4").read_bytes()
    paths["cut"].write_bytes(fast[: len(fast) * 3 // 4])
    paths["empty"].touch()
    paths["text"].write_text("no video " * 100)
    return {
        "no_index": (paths["no_index"], "unreadable data"),
        "cut": (paths["cut"], "of the 90 frames its header promises"),
        "empty": (paths["empty"], "an empty file"),
        "text": (paths["text"], "unreadable data"),
        "none": (paths["none"], "no such file"),
        "audio": (make_audio(folder / "audio.m4a"), "no video track"),
    }


def test_every_broken_file_is_named_in_four_parts(tmp_path: Path):
    for name, (path, words) in broken_files(tmp_path).items():
        with pytest.raises(VideoError, match=words) as caught:
            probe(path)
        assert str(path) in caught.value.where, name
        with pytest.raises(VideoError, match=words):
            list(decode_frames(path, [0.0, 1.0]))


def test_no_times_no_frames(tmp_path: Path):
    assert list(decode_frames(tmp_path / "never opened.mp4", [])) == []
