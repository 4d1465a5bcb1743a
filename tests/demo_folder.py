"""A demo's folder as its stages would leave it, filled with made-up values by the real writers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from eval.protocols.egopro import score
from eval.turns import to_turn
from proact_train.core.contracts import write_predictions, write_streams
from proact_train.core.jsonl import write_json, write_jsonl
from proact_train.core.recipe import dump_recipe
from proact_train.core.run_folder import append_metrics
from proact_train.core.types import Interval, Prediction, Query, Source, Stream, Video
from proact_train.demo.folder import DemoFolder, rl_name
from proact_train.rl.recipe import RlRecipe
from proact_train.sft.recipe import SftRecipe
from proact_train.stream.grammar import SILENCE, render
from proact_train.stream.store import FrameStore
from proact_train.stream.timeline import gold_answers

HOSTILE = "<script>alert(1)</script>"
# name -> how often an answer is wrong, how often it breaks the grammar
QUALITY = {
    "untrained": (0.5, 0.6),
    "sft": (0.15, 0.02),
    "rl_seed_0": (0.06, 0.0),
    "swapped_told": (0.45, 0.0),
    "swapped_frames": (0.5, 0.0),
}


def build_streams(root: Path) -> list[Stream]:
    """One stream of each use; the intent one is told something hostile."""
    source = Source("made", "test", "Apache-2.0")
    video = Video(str(root / "data" / "videos" / "a.mp4"), 6.0)
    query = (Query(1.0, "Alert me when the red cup is in view."),)
    spans = (Interval(2.0, 4.0),)
    reply = (Interval(1.0, 3.0, reply="Ana, here is the cup."), Interval(4.0, 6.0, reply="Again."))
    return [
        Stream("o-0", video, "event", "object", source, query=query, intervals=spans),
        Stream("a-0", video, "event", "action", source, query=query, intervals=spans),
        Stream("i-0", video, "intent", "cooking", source, memory=(HOSTILE,), intervals=reply),
    ]


def build_demo_folder(
    root: Path, streams: Sequence[Stream] | None = None, rl_seeds: Sequence[int] = (0,)
) -> DemoFolder:
    """Fills every place that the report reads.

    Args:
        streams: held-out streams whose frames are in `root/frames` already; None makes three small
            ones and their frames.
    """
    folder = DemoFolder(root)
    if streams is None:
        streams = build_streams(root)
        _write_frames(folder, streams)
    for path in (folder.train_streams, folder.rl_streams, folder.test_streams):
        write_streams(path, streams)
    qualities = QUALITY | {rl_name(seed): QUALITY["rl_seed_0"] for seed in rl_seeds}
    for name, (wrong, broken) in qualities.items():
        predictions = [predict(stream, name, wrong, broken) for stream in streams]
        write_predictions(folder.predictions(name), predictions)
        write_json(folder.scores(name), score(streams, predictions))
    write_jsonl(folder.sft_samples, [{"stream_id": stream.id} for stream in streams])
    write_jsonl(folder.train_decisions, [{"decision_id": stream.id} for stream in streams])
    _write_sft_run(folder)
    for seed in rl_seeds:
        _write_rl_run(folder, seed)
    write_json(folder.settings, {"seed": 3, "scale": 1.0})
    return folder


def predict(stream: Stream, name: str, wrong: float, broken: float) -> Prediction:
    """Gold answers with mistakes, seeded by stream and name."""
    rng = random.Random(f"{stream.id}/{name}")
    speak = "<Attention>" if stream.kind == "event" else "Ana, here it is."
    turns = []
    for idx, gold in enumerate(gold_answers(stream)):
        thought = (stream.thoughts or {}).get(idx, f"see {HOSTILE}")
        answer = gold
        if rng.random() < wrong:
            answer = speak if gold == SILENCE else SILENCE
        raw = render(thought, answer)
        if rng.random() < broken:
            words = thought.split() * 4
            raw = " ".join(rng.choices([*words, "<think>", "</think>", SILENCE], k=24))
        turns.append(to_turn(idx / stream.fps, raw, stream.kind, True))
    return Prediction(stream.id, f"/demo/{name}/model", "proact.prompt/1", tuple(turns))


def rollout_row(step: int, num_steps: int, rng: random.Random) -> dict[str, Any]:
    """The metrics of one step of stage 2."""

    def rise(low: float, high: float) -> float:
        share = 1 - math.exp(-3 * step / num_steps)
        return low + (high - low) * share + rng.gauss(0, 0.04)

    parts = {"format": (0.95, 1.0), "length": (0.9, 1.0), "history": (0.3, 0.35)}
    parts |= {"semantic": (0.55, 0.75), "response": (1.4, 1.8), "content": (0.5, 0.85)}
    row = {f"reward/{name}": rise(*span) for name, span in parts.items()}
    row |= {"reward": rise(4.1, 4.9), "reward/content_and_semantic": rise(1.05, 1.6)}
    row |= {f"class/{name}/accuracy": rise(0.5, 0.8) for name in ("silence", "alert")}
    if step % 4:
        row["class/reply/accuracy"] = rise(0.2, 0.7)
    row |= {"kl": abs(rise(0.0, 0.05)), "entropy": rise(0.6, 0.25)}
    row |= {"completions/invalid": abs(rise(0.05, 0.01)), "completions/truncated": 0.0}
    row |= {"groups/zero_variance": abs(rise(0.1, 0.4)), "rows/unscored": 0.0, "loss": 0.01}
    return row


def _write_frames(folder: DemoFolder, streams: Sequence[Stream]) -> None:
    store = FrameStore(folder.frames, 4096)
    for stream in streams:
        for idx in range(stream.num_frames):
            path = store.frame_path(stream.id, idx)
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (64, 64), (40 * idx, 90, 120)).save(path)


def _write_sft_run(folder: DemoFolder) -> None:
    dump_recipe(
        SftRecipe(model="tiny", train_samples="samples", output_dir="sft"),
        folder.sft_run / "recipe.yaml",
    )
    rng = random.Random(0)
    for step in range(10, 330, 10):
        share = 1 - math.exp(-step / 60)
        row: dict[str, Any] = {"step": step, "loss": 2.4 * (1 - share) + 0.12 + rng.random() / 30}
        for name, top in {"thought": 0.93, "silence": 0.99, "alert": 0.9, "reply": 0.85}.items():
            row[f"accuracy_{name}"] = share * top * (1 - rng.random() / 20)
        row |= {"num_completions": 1600.0, "num_silence": 1280.0, "num_alert": 240.0}
        append_metrics(folder.sft_run, row | {"num_reply": 80.0})


def _write_rl_run(folder: DemoFolder, seed: int) -> None:
    recipe = RlRecipe(model="sft", train_decisions="decisions", output_dir="rl", seed=seed)
    dump_recipe(recipe, folder.rl_run(seed) / "recipe.yaml")
    rng = random.Random(seed)
    rows = [rollout_row(step, 40, rng) for step in range(1, 41)]
    for step, row in enumerate(rows, 1):
        append_metrics(folder.rl_run(seed), {"step": step, **row})
    paired = {"standard_error": 0.05, "standard_error_by_stream": 0.07, "n": 96, "unscored": 0}
    report: dict[str, Any] = {"num_decisions": 96, "num_streams": 30, "num_generations": 8}
    report |= {"temperature": 1.0, "seed": 7, "before": rows[0], "after": rows[-1]}
    report["paired"] = {
        "reward": {"before": 4.1, "after": 4.6, "difference": 0.5, **paired},
        "content_and_semantic": {"before": 1.3, "after": 1.25, "difference": -0.05, **paired},
    }
    write_json(folder.evaluation(seed), report)
    write_jsonl(folder.completions(seed), [_completion(step, name) for step, name in _cases()])


def _cases() -> list[tuple[int, str]]:
    return [(step, name) for step in range(1, 41) for name in ("silence", "alert", "reply")]


def _completion(step: int, name: str) -> dict[str, Any]:
    gold = {"silence": SILENCE, "alert": "<Attention>", "reply": "Ana, here is the cup."}[name]
    parts = {"format": 1.0, "length": 1.0, "history": 0.4, "semantic": None, "response": 1.2}
    return {
        "step": step,
        "decision_id": f"i-0/{step % 6}",
        "kind": "intent" if name == "reply" else "event",
        "domain": "cooking" if name == "reply" else "object",
        "class": name,
        "gold_answer": gold,
        "completion": f"<think>see {HOSTILE} on the kitchen table</think>{gold}",
        "action": name,
        "reward": 4.1,
        **{f"reward/{part}": value for part, value in parts.items()},
        "reward/content": 0.8,
        "advantage": -0.31,
        "num_tokens": 21,
        "is_truncated": step == 1,
    }
