"""Watch streams frame by frame: `proact predict --streams S --model M --out PREDICTIONS`.

Frames arrive one at a time, the model's own answers are its history, nothing later is in context.
An interrupted run goes on stream by stream from OUT.partial; OUT itself appears when all is done. A
stream that fails is counted and left out, which makes it unscored. Beside it, OUT.run.json says
what ran, which streams failed and how fast it was.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from tqdm import tqdm

from proact_train.core.contracts import load_streams, write_predictions
from proact_train.core.errors import RecipeError, RunError
from proact_train.core.jsonl import write_json
from proact_train.core.recipe import load_recipe
from proact_train.core.types import Prediction, Stream
from proact_train.stream.prompt import PROMPT_VERSION

from .models.constant import CONSTANT_MODELS, ConstantModel
from .models.watcher import FrameModel
from .partial import PartialFile, weights_fingerprint
from .recipe import EvalRecipe
from .watch import StreamFailure, frame_source, watch_streams

# These change how a run computes, not what it is asked; a run may resume with others.
_FREE_TO_CHANGE = {"batch_size", "device"}


@dataclass(frozen=True)
class PredictReport:
    """What a run did.

    Attributes:
        num_resumed: streams that were finished before.
        failed: stream id -> reason, for the streams that are left out.
        num_frames: frames answered in this run.
        duration_s: wall-clock time of this run, loading the model excluded.
    """

    predictions: tuple[Prediction, ...]
    num_resumed: int
    failed: dict[str, str]
    num_frames: int
    duration_s: float

    @property
    def frames_per_s(self) -> float:
        return self.num_frames / self.duration_s if self.duration_s else 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `proact predict`."""
    parser.add_argument("--streams", required=True, help="streams.jsonl")
    parser.add_argument(
        "--model", required=True, help=f"a model folder, or {' or '.join(CONSTANT_MODELS)}"
    )
    parser.add_argument("--adapter", help="a LoRA adapter's folder, on top of --model")
    parser.add_argument("--out", required=True, help="predictions.jsonl to write")
    parser.add_argument("--recipe", help="a recipe below recipes/eval; the options override it")
    parser.add_argument("--batch-size", type=int, help="streams watched side by side")
    parser.add_argument("--temperature", type=float, help="0 is greedy")
    parser.add_argument("--max-pixels", type=int, help="ceiling of a frame's area")
    parser.add_argument("--no-think", action="store_true", help="ask for the bare answer")
    parser.add_argument("--frames", help="read (and fill) this frame store, not the videos")


def run(args: argparse.Namespace) -> None:
    """Runs `proact predict`."""
    recipe = recipe_of(args)
    streams = load_streams(args.streams)
    report = predict(streams, args.model, args.out, recipe, args.adapter, args.frames)
    print(
        f"{args.out}: {len(report.predictions)} streams predicted ({report.num_resumed} of them "
        f"before), {len(report.failed)} failed, {report.frames_per_s:.1f} frames/s"
    )
    for stream_id, reason in list(report.failed.items())[:20]:
        print(f"failed: stream {stream_id!r}: {reason}", file=sys.stderr)


def recipe_of(args: argparse.Namespace) -> EvalRecipe:
    """The recipe with the command line's options over it. Raises RecipeError."""
    options = {
        "batch_size": args.batch_size,
        "temperature": args.temperature,
        "max_pixels": args.max_pixels,
        "with_thought": False if args.no_think else None,
    }
    given = {key: value for key, value in options.items() if value is not None}
    recipe = load_recipe(args.recipe, EvalRecipe) if args.recipe else EvalRecipe()
    try:
        return EvalRecipe.model_validate({**recipe.model_dump(), **given})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise RecipeError(
            f"command line, {first['loc'][0]}",
            repr(first["input"]),
            first["msg"],
            "Correct the option.",
        ) from None


def predict(
    streams: Sequence[Stream],
    model: str,
    out: str | Path,
    recipe: EvalRecipe,
    adapter: str | None = None,
    frame_store: str | None = None,
) -> PredictReport:
    """Predicts streams with a model folder or a constant baseline; resumes and writes `out`.

    Args:
        frame_store: folder of a frame store; None decodes the videos directly.

    Raises:
        RunError: the model does not load, `out`'s partial file belongs to another run, or no stream
            could be predicted.
    """
    identity = run_identity(model, adapter, recipe)
    frames_of = frame_source(recipe.max_pixels, frame_store)
    with PartialFile(Path(f"{out}.partial"), identity, list(streams)) as partial:
        if partial.num_changed:
            print(f"{partial.num_changed} finished streams have changed and are predicted again")
        num_resumed = len(partial.finished)
        todo = [stream for stream in streams if stream.id not in partial.finished]
        failed: dict[str, str] = {}
        num_frames, duration_s = 0, 0.0
        if todo:
            watcher = load_frame_model(model, adapter, recipe)
            started_s = time.perf_counter()
            failed = _predict_all(watcher, todo, recipe, frames_of, partial)
            duration_s = time.perf_counter() - started_s
            num_frames = sum(s.num_frames for s in todo if s.id not in failed)
        kept = tuple(partial.finished[s.id] for s in streams if s.id in partial.finished)
        if failed and not kept:
            raise RunError(
                f"{len(failed)} streams",
                f"no prediction at all; the first: {next(iter(failed.values()))}",
                "streams that can be watched",
                "Mend the cause and run again.",
            )
        report = PredictReport(kept, num_resumed, failed, num_frames, duration_s)
        _write(out, report, identity)
        if not failed:
            partial.delete()
    return report


def load_frame_model(model: str, adapter: str | None, recipe: EvalRecipe) -> FrameModel:
    """A constant baseline by its name, or the session over a model folder."""
    if model in CONSTANT_MODELS:
        return ConstantModel(model, recipe.with_thought)
    from .models.session import SessionModel  # torch loads only when a model does

    return SessionModel.load(model, adapter, recipe)


def run_identity(model: str, adapter: str | None, recipe: EvalRecipe) -> dict[str, Any]:
    """What two runs must share so that one may finish the other's work."""
    folders = {} if model in CONSTANT_MODELS else {"weights": model}
    folders |= {"adapter_weights": adapter} if adapter else {}
    for folder in folders.values():
        if not Path(folder).is_dir():
            raise RunError(
                folder,
                "no such folder",
                f"a model folder, or one of {', '.join(CONSTANT_MODELS)}",
                "Check the path; nothing is downloaded.",
            )
    options = recipe.model_dump(mode="json", exclude=_FREE_TO_CHANGE)
    return {
        "model": model,
        "adapter": adapter,
        **{name: weights_fingerprint(folder) for name, folder in folders.items()},
        "prompt": PROMPT_VERSION,
        **options,
    }


def batches_of(streams: Sequence[Stream], batch_size: int) -> list[list[Stream]]:
    """Batches of streams alike in kind and length, the longest first (memory shows at once)."""
    ordered = sorted(streams, key=lambda stream: (-stream.num_frames, stream.kind, stream.id))
    return [ordered[idx : idx + batch_size] for idx in range(0, len(ordered), batch_size)]


def _predict_all(
    model: FrameModel,
    streams: Sequence[Stream],
    recipe: EvalRecipe,
    frames_of: Callable[[Stream], Any],
    partial: PartialFile,
) -> dict[str, str]:
    failed: dict[str, str] = {}
    total = sum(stream.num_frames for stream in streams)
    is_terminal = sys.stderr.isatty()
    with tqdm(
        total=total, unit="frame", desc="predict", mininterval=0.5 if is_terminal else 30
    ) as bar:
        for batch in batches_of(streams, recipe.batch_size):
            for result in watch_streams(model, batch, recipe.with_thought, frames_of, bar.update):
                if isinstance(result, StreamFailure):
                    failed[result.stream_id] = result.reason
                    bar.set_postfix(failed=len(failed))
                else:
                    partial.append(result)
    return failed


def _write(out: str | Path, report: PredictReport, identity: dict[str, Any]) -> None:
    write_predictions(out, report.predictions)
    write_json(
        f"{out}.run.json",
        {
            "run": identity,
            "num_streams": len(report.predictions),
            "num_resumed": report.num_resumed,
            "failed": report.failed,
            "num_frames": report.num_frames,
            "frames_per_s": report.frames_per_s,
        },
    )
