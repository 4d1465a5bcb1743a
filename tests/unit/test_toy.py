"""The toy world: the same bytes from the same seed, and gold that the pixels bear out."""

import random
from pathlib import Path

import numpy as np
import pytest

from data_builders.toy.build import build_toy
from data_builders.toy.plan import (
    FPS,
    Plan,
    gold_runs,
    is_asked_for,
    plan_stream,
    thought,
    to_stream,
)
from data_builders.toy.render import draw_frame
from data_builders.toy.world import COLOURS, Frame, Hand, Thing, all_things, is_held_out
from proact_train.core.contracts import load_streams
from proact_train.core.types import Stream
from proact_train.stream.store import read_frames
from proact_train.stream.timeline import gold_answers

SIZES = {"train": 6, "rl": 3, "test": 9}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("toy")
    build_toy(out, SIZES, seed=3)
    return out


def test_the_same_seed_gives_the_same_bytes(toy: Path, tmp_path: Path):
    build_toy(tmp_path, {**SIZES, "train": 3}, seed=3)
    for path in sorted(tmp_path.rglob("*.mp4")):
        assert path.read_bytes() == (toy / path.relative_to(tmp_path)).read_bytes()
    first = (tmp_path / "train.jsonl").read_text().splitlines()
    assert first == (toy / "train.jsonl").read_text().splitlines()[:3]
    assert (tmp_path / "test.jsonl").read_bytes() == (toy / "test.jsonl").read_bytes()
    build_toy(tmp_path / "other", {"test": 3}, seed=4)
    assert (tmp_path / "other/test.jsonl").read_bytes() != (toy / "test.jsonl").read_bytes()


def test_the_train_split_begins_with_its_short_streams(tmp_path: Path):
    build_toy(tmp_path, {"train": 3, "test": 3}, seed=3, num_short=9)
    lengths = [stream.num_frames for stream in load_streams(tmp_path / "train.jsonl")]
    assert lengths == [2] * 6 + [5] * 3 + [10] * 3
    assert [stream.num_frames for stream in load_streams(tmp_path / "test.jsonl")] == [10] * 3


def test_splits_share_no_video_and_cover_all_uses(toy: Path):
    streams = {split: load_streams(toy / f"{split}.jsonl") for split in SIZES}
    paths = [stream.video.path for rows in streams.values() for stream in rows]
    assert len(set(paths)) == sum(SIZES.values())
    for rows in streams.values():
        assert {"object", "action"} < {stream.domain for stream in rows}
        assert any(stream.kind == "intent" for stream in rows)


@pytest.mark.parametrize("use", ["object", "action", "intent"])
def test_held_out_combinations_appear_in_test_alone(use):
    for split in ("train", "rl", "test"):
        for seed in range(60):
            plan = plan_stream(random.Random(seed), use, split, place="shelf")
            seen = {thing for frame in plan.frames for thing in frame.slots if thing}
            held_out = {thing for thing in seen if is_held_out(thing, plan.place)}
            if split == "test":
                assert is_held_out(plan.target, plan.place)
            else:
                assert not held_out


def test_every_colour_shape_and_place_is_trained():
    """A held-out triple is new as a combination only."""
    trained = {
        (thing, place)
        for thing in all_things()
        for place in ("table", "floor", "shelf", "lawn")
        if not is_held_out(thing, place)
    }
    assert {thing for thing, _ in trained} == set(all_things())


def test_a_board_splits_an_interval_by_hand():
    red, blue = Thing("red", "ball"), Thing("blue", "cup")
    shown = [
        Frame((red, None)),
        Frame((red, blue), (True, False)),
        Frame((red, blue)),
        Frame((None, blue)),
    ]
    plan = Plan("object", "table", red, "grabs", tuple(shown))
    assert gold_runs(plan) == [(0, 1), (2, 3)]


def test_an_act_needs_the_hand_the_gesture_and_the_thing_by_hand():
    red, blue = Thing("red", "ball"), Thing("blue", "cup")
    plan = Plan("action", "table", red, "grabs", ())
    both = (red, blue)
    assert is_asked_for(plan, Frame(both, hand=Hand("grabs", 0)))
    assert not is_asked_for(plan, Frame(both, hand=Hand("taps", 0)))
    assert not is_asked_for(plan, Frame(both, hand=Hand("grabs", 1)))
    assert not is_asked_for(plan, Frame(both))


def test_a_thought_judges_each_word_that_describes_a_thing_by_hand():
    red, blue = Thing("red", "ball"), Thing("blue", "ball")
    plan = Plan("object", "table", red, "grabs", ())
    assert thought(plan, Frame((red, blue))) == (
        "want red ball, left red yes ball yes, right blue no ball yes"
    )
    assert thought(plan, Frame((red, None), (True, False))) == (
        "want red ball, left none, right none"
    )
    plan = Plan("action", "table", red, "grabs", ())
    assert thought(plan, Frame((red, blue), hand=Hand("taps", 1))) == (
        "want red ball, hand grabs, left red ball, right blue ball, hand taps no blue no ball yes"
    )
    assert thought(plan, Frame((None, None))).endswith("right none, no hand")


def test_an_intent_speaks_once_an_interval_and_names_what_memory_names():
    rng = random.Random(5)
    plan = plan_stream(rng, "intent", "train", place="lawn")
    stream = to_stream(plan, "x", "/tmp/x.mp4", "train", rng)
    replies = [answer for answer in gold_answers(stream) if answer != "<Silence>"]
    assert len(replies) == len(stream.intervals)
    assert all(str(plan.target) in text for text in (*replies, *stream.memory))


def near(image: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((np.abs(image.astype(int) - colour).sum(-1) < 60).sum())


def colours_in_view(stream: Stream) -> list[set[str]]:
    frames = [np.asarray(image) for image in read_frames(stream, max_pixels=128 * 128)]
    return [{name for name, rgb in COLOURS.items() if near(image, rgb) > 80} for image in frames]


def test_decoded_pixels_bear_out_thoughts_and_intervals(toy: Path):
    for stream in load_streams(toy / "test.jsonl"):
        seen = colours_in_view(stream)
        thoughts = stream.thoughts or {}
        for idx in range(stream.num_frames):
            words = set(thoughts[idx].partition("left")[2].replace(",", "").split())
            assert seen[idx] == words & set(COLOURS), (stream.id, idx, thoughts[idx])
        for interval in stream.intervals:
            target = (stream.query[0].text if stream.query else stream.memory[0]).split()
            colour = next(word for word in target if word in COLOURS)
            first, last = round(interval.start_s * FPS), round(interval.end_s * FPS) - 1
            assert all(colour in seen[idx] for idx in range(first, last + 1))


def test_every_shape_looks_different():
    pictures = [
        np.asarray(draw_frame(Frame((Thing("red", shape), None)), "table")).tobytes()
        for shape in ("ball", "cone", "cup", "flag", "ring")
    ]
    assert len(set(pictures)) == 5
