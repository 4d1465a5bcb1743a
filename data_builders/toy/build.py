"""Render toy first-person videos with exact gold, for training, RL and testing.

example:
  proact build toy --out data/toy --num-train 900 --num-rl 90 --num-test 90
"""

from __future__ import annotations

import argparse
import random
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="folder for streams and videos")
    parser.add_argument("--num-train", type=int, default=900, help="streams to train on")
    parser.add_argument("--num-rl", type=int, default=90, help="streams for RL decisions")
    parser.add_argument("--num-test", type=int, default=90, help="streams of unseen combinations")
    parser.add_argument(
        "--num-short",
        type=int,
        default=0,
        help="two-second streams that train.jsonl begins with: a model of random weights learns "
        "to see from them first (%(default)s)",
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
    depends on the seed, its split and its number alone, so a larger build holds the smaller one.

    Args:
        sizes: streams of `NUM_FRAMES` seconds by split.
        num_short: streams of `NUM_SHORT_FRAMES` seconds that the train split begins with.
    """
    report = BuildReport("toy")
    jobs = [("train", idx, True) for idx in range(num_short)]
    jobs += [(split, idx, False) for split, size in sizes.items() for idx in range(size)]
    built = list(map_on_cores(partial(_build_stream, out, seed), jobs, "toy videos"))
    for split in sizes:
        streams = [stream for stream in built if stream.source.split == split]
        write_streams(out / f"{split}.jsonl", streams)
        report.add_streams(streams)
    report.write(out / "report.json")
    return report


def _build_stream(out: Path, seed: int, job: tuple[str, int, bool]) -> Stream:
    split, idx, is_short = job
    name = f"{split}-short" if is_short else split
    rng = random.Random(f"{seed}/{name}/{idx}")
    places = list(PLACES)
    place = places[idx // len(USES) % len(places)]
    plan = plan_stream(rng, USES[idx % len(USES)], split, place)
    if is_short:
        plan = shorten(plan, rng)
    stream_id = f"toy-{name}-{idx:05d}"
    video = out / "videos" / f"{stream_id}.mp4"
    render_video(video, plan.frames, plan.place, seed=rng.randrange(2**32))
    stream = to_stream(plan, stream_id, str(video.absolute()), split, rng)
    check_stream(stream_id, stream)
    return stream
