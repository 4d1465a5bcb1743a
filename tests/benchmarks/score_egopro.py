"""How long `proact score egopro` takes on a benchmark of EgoPro's size: 2,400 streams of 60 frames.

Run by hand: OMP_NUM_THREADS=1 python -m tests.benchmarks.score_egopro
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from eval.protocols.egopro import EgoProOptions, score
from eval.score import load_checked_predictions
from eval.turns import prompt_id, to_turn
from proact_train.core.contracts import load_streams, write_predictions, write_streams
from proact_train.core.types import (
    EVENT_DOMAINS,
    INTENT_DOMAINS,
    Interval,
    Prediction,
    Source,
    Stream,
    Video,
)

NUM_STREAMS, NUM_FRAMES = 2400, 60


def build(idx: int, rng: random.Random) -> tuple[Stream, Prediction]:
    domains = (*EVENT_DOMAINS, *INTENT_DOMAINS)
    domain = domains[idx % len(domains)]
    kind = "event" if domain in EVENT_DOMAINS else "intent"
    starts = sorted(rng.sample(range(0, NUM_FRAMES - 8, 8), 3))
    intervals = tuple(Interval(float(s), float(s + rng.randint(1, 8)), "Do it.") for s in starts)
    video = Video(f"{idx}.mp4", float(NUM_FRAMES))
    source = Source("made", "test", "Apache-2.0")
    stream = Stream(f"s{idx}", video, kind, domain, source, intervals=intervals)
    speak = "<Attention>" if kind == "event" else "Take the red cup from the left shelf."
    turns = tuple(
        to_turn(
            float(frame),
            f"<think>A cup and two hands on a table.</think>{rng.choice(['<Silence>', speak])}",
            kind,
            True,
            0.1,
        )
        for frame in range(NUM_FRAMES)
    )
    return stream, Prediction(stream.id, "model", prompt_id(kind, True), turns)


def main() -> None:
    rng = random.Random(0)
    pairs = [build(idx, rng) for idx in range(NUM_STREAMS)]
    with tempfile.TemporaryDirectory() as folder:
        gold, pred = Path(folder, "gold.jsonl"), Path(folder, "pred.jsonl")
        write_streams(gold, [stream for stream, _ in pairs])
        write_predictions(pred, [prediction for _, prediction in pairs])
        started_s = time.perf_counter()
        streams = load_streams(gold)
        predictions = load_checked_predictions(str(pred), streams)
        loaded_s = time.perf_counter()
        score(streams, predictions, EgoProOptions())
        scored_s = time.perf_counter()
    print(f"load and check {loaded_s - started_s:.2f} s, score {scored_s - loaded_s:.2f} s")


if __name__ == "__main__":
    main()
