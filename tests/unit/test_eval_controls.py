"""Controls: swapped queries and swapped frames, with the gold left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eval.controls import swap_frames, swap_told
from proact_train.core.errors import DataError
from proact_train.core.types import Query

from .test_eval_egopro import event, intent


def asked(name: str, text: str, t_s: float, domain: str = "object"):
    return event(name, "0101", domain, query=(Query(t_s, text),))


def test_queries_come_from_another_object_and_keep_their_time():
    texts = ["cup", "cup", "book", "shoe", "cup"]
    streams = [asked(f"s{idx}", text, float(idx % 2)) for idx, text in enumerate(texts)]
    swapped = swap_told(streams, seed=3)
    for before, after in zip(streams, swapped, strict=True):
        assert after.query[0].text != before.query[0].text
        assert after.query[0].t_s == before.query[0].t_s
        assert (after.id, after.video, after.intervals) == (
            before.id,
            before.video,
            before.intervals,
        )


def test_domains_do_not_mix():
    streams = [asked(name, name, 0.0, domain) for domain in ("object", "action") for name in "ab"]
    streams = [replace(s, id=f"{s.domain}{s.id}") for s in streams]
    assert [s.query[0].text for s in swap_told(streams)] == ["b", "a", "b", "a"]


def test_memory_is_swapped_with_its_profile():
    streams = [
        replace(intent(name, 4, (1, 2)), memory=(f"likes {name}",), profile={"name": name})
        for name in "abc"
    ]
    for before, after in zip(streams, swap_told(streams), strict=True):
        assert after.memory != before.memory
        assert after.memory == (f"likes {after.profile['name']}",)


def test_frames_are_a_derangement_and_lengths_stay():
    streams = [event(f"s{idx}", "01" * (idx + 1)) for idx in range(7)]
    swapped = swap_frames(streams, seed=1)
    paths = [stream.video.path for stream in streams]
    assert all(a.video.path != b.video.path for a, b in zip(streams, swapped, strict=True))
    assert sorted(stream.video.path for stream in swapped) == sorted(paths)
    assert [s.num_frames for s in swapped] == [s.num_frames for s in streams]


def test_a_stream_of_the_same_video_is_no_donor():
    streams = [event(f"s{idx}", "01") for idx in range(4)]
    shared = [replace(s, video=streams[idx // 2].video) for idx, s in enumerate(streams)]
    for before, after in zip(shared, swap_frames(shared), strict=True):
        assert before.video.path != after.video.path


def test_seed_decides():
    streams = [event(f"s{idx}", "01") for idx in range(9)]
    assert swap_frames(streams, 1) == swap_frames(streams[::-1], 1)[::-1]
    assert swap_frames(streams, 1) != swap_frames(streams, 2)


def test_nothing_to_swap_is_refused():
    with pytest.raises(DataError, match="domain 'object'"):
        swap_frames([event("a", "01")])
    with pytest.raises(DataError, match="query or memory"):
        swap_told([asked("a", "cup", 0.0), asked("b", "cup", 0.0)])
