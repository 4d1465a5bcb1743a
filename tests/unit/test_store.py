"""The frame store: made once, resumed, and true to its settings."""

from pathlib import Path

import pytest

from proact_train.core.errors import DataError
from proact_train.core.types import Source, Stream, Video
from proact_train.stream.store import FrameStore, read_frames

from .clips import frame_index, make_clip


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    path = make_clip(tmp_path / "clip.mp4", [i * 3000 for i in range(95)])
    source = Source("test", "test", "Apache-2.0")
    return Stream("a-1", Video(str(path), 95 / 30), "event", "object", source)


def test_frames_are_those_of_their_times_and_resume(stream: Stream, tmp_path: Path):
    store = FrameStore(tmp_path / "images", max_pixels=96 * 64)
    paths = store.ensure(stream)
    assert [path.name for path in paths] == [f"{idx:06d}.jpg" for idx in range(4)]
    from PIL import Image

    assert [frame_index(Image.open(path)) for path in paths] == [0, 30, 60, 90]
    paths[2].unlink()
    kept = paths[1].stat().st_mtime_ns
    assert store.ensure(stream) == paths
    assert paths[2].is_file()
    assert paths[1].stat().st_mtime_ns == kept
    assert not list((tmp_path / "images").rglob("*.tmp"))


def test_other_settings_are_refused(stream: Stream, tmp_path: Path):
    FrameStore(tmp_path / "images", max_pixels=96 * 64).ensure(stream)
    with pytest.raises(DataError, match=r"frames made with .*6144.*another output folder"):
        FrameStore(tmp_path / "images", max_pixels=32 * 32).ensure(stream)


def test_an_id_cannot_leave_the_store(tmp_path: Path):
    for stream_id in ("../x", "a/b", "", ".."):
        with pytest.raises(DataError, match="no folder name"):
            FrameStore(tmp_path, 1024).frame_path(stream_id, 0)


def test_direct_decoding_keeps_the_budget(stream: Stream):
    images = list(read_frames(stream, max_pixels=32 * 64))
    assert [image.size for image in images] == [(32, 32)] * 4
