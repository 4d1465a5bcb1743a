"""Render toy first-person videos with exact gold, for training, RL and testing.

example:
  proact build toy --out data/toy --num-train 900 --num-rl 90 --num-test 90
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from proact_train.core.contracts import check_stream, write_streams
from proact_train.core.types import Stream

from ..report import BuildReport
from ..workers import map_on_cores
from .plan import USES, plan_stream, shorten, to_stream
from .render import render_video
from .world import PLACES

SPLITS: tuple[str, ...] = ("train", "rl", "test")
# Frames of the short streams: as many equal blocks of them, one behind the other.
SHORT_LENGTHS = (2, 2, 5)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="folder for streams and videos")
    parser.add_argument("--num-train", type=int, default=900, help="streams to train on")
    parser.add_argument("--num-rl", type=int, default=90, help="streams for RL decisions")
    parser.add_argument("--num-test", type=int, default=90, help="streams of unseen combinations")
    parser.add_argument(
        "--num-short",
        type=int,
        default=0,
        help="short streams that train.jsonl begins with, of two and then of five seconds: from "
        "them a model of random weights learns to see (%(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same bytes")


def run(args: argparse.Namespace) -> None:
    sizes = dict(zip(SPLITS, (args.num_train, args.num_rl, args.num_test), strict=True))
    report = build_toy(args.out, sizes, args.seed, args.num_short)
    print(report)
    print(f"streams: {', '.join(str(args.out / f'{split}.jsonl') for split in SPLITS)}")


def build_toy(out: Path, sizes: dict[str, int], seed: int, num_short: int = 0) -> BuildReport:
    """Writes `OUT/{train,rl,test}.jsonl`, `OUT/videos/` and `OUT/report.json`.

    The three uses (event/object, event/action, intent) take turns, and so do the places. A stream
    depends on the seed, its split and its number alone (the length of a short one also on how many
    there are), so a larger build holds the smaller one.

    Args:
        sizes: streams of `NUM_FRAMES` seconds by split.
        num_short: streams of fewer seconds (`SHORT_LENGTHS`) that the train split begins with.
    """
    report = BuildReport("toy")
    jobs = [_Job("train", idx, _short_length(idx, num_short)) for idx in range(num_short)]
    jobs += [_Job(split, idx, None) for split, size in sizes.items() for idx in range(size)]
    built = list(map_on_cores(partial(_build_stream, out, seed), jobs, "toy videos"))
    for split in sizes:
        streams = [stream for stream in built if stream.source.split == split]
        write_streams(out / f"{split}.jsonl", streams)
        report.add_streams(streams)
    report.write(out / "report.json")
    return report


@dataclass(frozen=True)
class _Job:
    """One stream to build; `num_frames` of a short one, else None."""

    split: str
    idx: int
    num_frames: int | None


def _short_length(idx: int, num_short: int) -> int:
    return SHORT_LENGTHS[idx * len(SHORT_LENGTHS) // num_short]


def _build_stream(out: Path, seed: int, job: _Job) -> Stream:
    name = f"{job.split}-short" if job.num_frames else job.split
    rng = random.Random(f"{seed}/{name}/{job.idx}")
    places = list(PLACES)
    place = places[job.idx // len(USES) % len(places)]
    plan = plan_stream(rng, USES[job.idx % len(USES)], job.split, place)
    if job.num_frames:
        plan = shorten(plan, job.num_frames, rng)
    stream_id = f"toy-{name}-{job.idx:05d}"
    video = out / "videos" / f"{stream_id}.mp4"
    render_video(video, plan.frames, plan.place, seed=rng.randrange(2**32))
    stream = to_stream(plan, stream_id, str(video.absolute()), job.split, rng)
    check_stream(stream_id, stream)
    return stream
