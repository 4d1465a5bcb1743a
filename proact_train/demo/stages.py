"""The demo's stages, read downward: what each makes, and from what.

A stage is finished once its product stands; an unfinished one goes on inside (videos, training and
prediction resume by themselves). Seconds are added up over interruptions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from data_builders.rl import RlOptions, build_rl
from data_builders.sft import SftOptions, build_sft
from data_builders.toy.build import build_toy
from data_builders.turns import load_token_counter
from eval.controls import swap_frames, swap_told
from eval.predict import predict
from eval.recipe import EvalRecipe
from eval.score import score_predictions

from ..core.contracts import load_predictions, load_streams
from ..core.jsonl import write_json
from ..core.recipe import load_recipe
from ..core.run_folder import COMPLETE, MODEL
from ..core.types import Message, Stream
from . import folder as names
from .folder import DemoFolder
from .launch import RECIPES, launch_stage
from .machine import MemoryWatch, describe_machine
from .size import DemoSize

_NUM_READ = 300  # streams that the tokenizer is trained on


@dataclass(frozen=True)
class Stage:
    """One step of the demo; it is finished once `product` stands."""

    title: str
    product: Path
    run: Callable[[], Any]


def build_stages(
    folder: DemoFolder, size: DemoSize, seed: int, rl_seeds: Sequence[int]
) -> list[Stage]:
    """All stages in order, for one world and any number of GSPO runs."""
    evaluations = [
        (names.ALWAYS_SPEAK, names.ALWAYS_SPEAK.replace("_", "-"), None),
        (names.UNTRAINED, folder.tiny, None),
        (names.SFT, folder.sft_run / MODEL, None),
        (names.SWAPPED_TOLD, folder.sft_run / MODEL, swap_told),
        (names.SWAPPED_FRAMES, folder.sft_run / MODEL, swap_frames),
    ]
    stages = [
        Stage("render toy videos", folder.data / "report.json", partial(_toy, folder, size, seed)),
        Stage("a tiny Qwen3-VL", folder.tiny / COMPLETE, partial(_tiny, folder, seed)),
        Stage("SFT samples", folder.sft_samples, partial(_samples, folder)),
        Stage("RL decisions", folder.held_out_decisions, partial(_decisions, folder, seed)),
        Stage("SFT", folder.sft_run / MODEL / COMPLETE, partial(_sft, folder, size, seed)),
    ]
    for rl_seed in rl_seeds:
        run = folder.rl_run(rl_seed)
        title = f"GSPO, seed {rl_seed}"
        stages.append(Stage(title, run / MODEL / COMPLETE, partial(_rl, folder, size, rl_seed)))
        evaluations.append((names.rl_name(rl_seed), run / MODEL, None))
    return stages + [
        Stage(f"watch: {name}", folder.scores(name), partial(_watch, folder, name, model, change))
        for name, model, change in evaluations
    ]


def run_stages(stages: Sequence[Stage], folder: DemoFolder) -> Path:
    """Runs what is not finished, then writes the report and returns its path."""
    with MemoryWatch(folder.memory):
        for number, stage in enumerate(stages, 1):
            print(f"\n[{number}/{len(stages)}] {stage.title}", flush=True)
            if stage.product.is_file():
                print(f"finished before: {stage.product}")
                continue
            _timed(folder, stage)
    from .report import write_report

    return write_report(folder, load_seconds(folder), describe_machine(folder.memory))


def load_seconds(folder: DemoFolder) -> dict[str, float]:
    """Wall-clock seconds of each stage so far, in the order they ran."""
    if not folder.seconds.is_file():
        return {}
    return json.loads(folder.seconds.read_text(encoding="utf-8"))


def _timed(folder: DemoFolder, stage: Stage) -> None:
    started_s = time.monotonic()
    try:
        stage.run()
    finally:
        seconds = load_seconds(folder)
        took_s = time.monotonic() - started_s
        write_json(folder.seconds, {**seconds, stage.title: seconds.get(stage.title, 0) + took_s})
        print(f"{stage.title}: {took_s:.0f} s", flush=True)


def _toy(folder: DemoFolder, size: DemoSize, seed: int) -> None:
    splits = {"train": size.num_train, "rl": size.num_rl, "test": size.num_test}
    print(build_toy(folder.data, splits, seed, size.num_short))


def _tiny(folder: DemoFolder, seed: int) -> None:
    """Random weights; the vocabulary comes from what the training streams say."""
    from ..model.tiny import build_tiny_checkpoint

    streams = load_streams(folder.train_streams)[-_NUM_READ:]
    corpus = [text for stream in streams for text in _texts(stream)]
    build_tiny_checkpoint(folder.tiny, corpus, seed, max_pixels=_watching().max_pixels)
    (folder.tiny / COMPLETE).touch()


def _texts(stream: Stream) -> list[str]:
    """All that is said in a stream, with the roles that the chat template writes."""
    from ..stream.grammar import render
    from ..stream.prompt import build_messages
    from ..stream.timeline import gold_answers

    thoughts = stream.thoughts or {}
    answers = [render(thoughts.get(k, ""), text) for k, text in enumerate(gold_answers(stream))]
    messages = build_messages(stream, range(stream.num_frames), answers)
    return [f"<|im_start|>{message['role']}\n{_text(message)}" for message in messages]


def _text(message: Message) -> str:
    return "".join(part.get("text", "") for part in message["content"])


def _samples(folder: DemoFolder) -> None:
    options = SftOptions(max_pixels=_watching().max_pixels)
    count_tokens = load_token_counter(folder.tiny)
    streams = load_streams(folder.train_streams)
    print(build_sft(streams, folder.sft_samples.parent, count_tokens, options))


def _decisions(folder: DemoFolder, seed: int) -> None:
    options = RlOptions(seed=seed, max_pixels=_watching().max_pixels)
    count_tokens = load_token_counter(folder.tiny)
    for streams, decisions in (
        (folder.rl_streams, folder.train_decisions),
        (folder.test_streams, folder.held_out_decisions),
    ):
        print(build_rl(load_streams(streams), decisions.parent, count_tokens, options))


def _sft(folder: DemoFolder, size: DemoSize, seed: int) -> None:
    overrides = {
        "model": folder.tiny,
        "train_samples": folder.sft_samples,
        "output_dir": folder.sft_run,
        "seed": seed,
    }
    launch_stage("sft", overrides, size.num_processes)


def _rl(folder: DemoFolder, size: DemoSize, rl_seed: int) -> None:
    overrides = {
        "model": folder.sft_run,
        "train_decisions": folder.train_decisions,
        "held_out_decisions": folder.held_out_decisions,
        "output_dir": folder.rl_run(rl_seed),
        "seed": rl_seed,
        "max_steps": size.rl_steps,
    }
    launch_stage("rl", overrides, size.num_processes)


def _watch(
    folder: DemoFolder,
    name: str,
    model: Path | str,
    change: Callable[[Sequence[Stream]], list[Stream]] | None,
) -> None:
    """Predicts the test streams, or a control's version of them, and scores against their gold."""
    streams, out = load_streams(folder.test_streams), folder.predictions(name)
    shown = change(streams) if change else streams
    store = None if change else str(folder.frames)
    predict(shown, str(model), out, _watching(), frame_store=store)
    write_json(folder.scores(name), score_predictions(streams, load_predictions(str(out))))


def _watching() -> EvalRecipe:
    return load_recipe(RECIPES / "eval/toy_cpu.yaml", EvalRecipe)
