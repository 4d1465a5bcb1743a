"""Render toy first-person videos with exact gold, for training, RL and testing.

example:
  proact build toy --out data/toy --num-train 900 --num-rl 90 --num-test 90
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from tqdm import tqdm

from proact_train.core.contracts import check_stream, write_streams
from proact_train.core.types import Stream

from ..report import BuildReport
from .plan import USES, plan_stream, to_stream
from .render import render_video

SPLITS: tuple[str, ...] = ("train", "rl", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="folder for streams and videos")
    parser.add_argument("--num-train", type=int, default=900, help="streams to train on")
    parser.add_argument("--num-rl", type=int, default=90, help="streams for RL decisions")
    parser.add_argument("--num-test", type=int, default=90, help="streams of unseen combinations")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same bytes")


def run(args: argparse.Namespace) -> None:
    sizes = dict(zip(SPLITS, (args.num_train, args.num_rl, args.num_test), strict=True))
    report = build_toy(args.out, sizes, args.seed)
    print(report)
    print(f"streams: {', '.join(str(args.out / f'{split}.jsonl') for split in SPLITS)}")


def build_toy(out: Path, sizes: dict[str, int], seed: int) -> BuildReport:
    """Writes `OUT/{train,rl,test}.jsonl`, `OUT/videos/` and `OUT/report.json`.

    The three uses (event/object, event/action, intent) take turns. A stream depends on the seed,
    its split and its number alone, so a larger build begins with the smaller one.
    """
    report = BuildReport("toy")
    with tqdm(total=sum(sizes.values()), unit="stream", desc="toy videos") as progress:
        for split, size in sizes.items():
            streams = []
            for idx in range(size):
                streams.append(_build_stream(out, split, idx, seed))
                progress.update()
            write_streams(out / f"{split}.jsonl", streams)
            report.add_streams(streams)
    report.write(out / "report.json")
    return report


def _build_stream(out: Path, split: str, idx: int, seed: int) -> Stream:
    rng = random.Random(f"{seed}/{split}/{idx}")
    plan = plan_stream(rng, USES[idx % len(USES)], split)
    stream_id = f"toy-{split}-{idx:05d}"
    video = out / "videos" / f"{stream_id}.mp4"
    render_video(video, plan.frames, plan.place, seed=rng.randrange(2**32))
    stream = to_stream(plan, stream_id, str(video.absolute()), split, rng)
    check_stream(stream_id, stream)
    return stream
