"""One GSPO run, read downward: recipe, seeds, model, adapter, data, measure, train, save, measure.

Left out: stream trees over several decisions, server engines, groups split over ranks. Left to
DeepSpeed: sharding. Left to `proact build rl`: which turns are decisions, whole turns dropped to a
token budget.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from transformers import set_seed

from ..core.contracts import load_decisions
from ..core.jsonl import parse_object, read_lines, write_jsonl
from ..core.recipe import check_same_recipe, dump_recipe
from ..core.run_folder import (
    COMPLETE,
    MODEL,
    checkpoint_step,
    mark_complete,
    model_folder,
    newest_complete_checkpoint,
)
from ..model.load import load_model, load_processor, trainable_summary
from ..model.lora import add_lora
from ..model.trunk import use_trunk_attention
from ..training.callbacks import (
    EXIT_CODE_STOPPED,
    MetricsFile,
    ProgressBar,
    StopFile,
    replace_printing,
)
from ..training.launch import check_saved_weights, keep_metrics_until, raise_incomplete
from .arguments import build_arguments, load_dtype
from .batch import check_decisions
from .evaluate import (
    Measurement,
    describe,
    held_out_decisions,
    load_before,
    measure,
    save_before,
    write_report,
)
from .gradient_watch import GradientWatch
from .metrics import rollout_metrics, spread, table_row
from .recipe import KEYS_FREE_ON_RESUME, RlRecipe
from .rollout import InProcessEngine, Sampling, whole_weights
from .rows import Row
from .scoring import build_scorer
from .trainer import GspoTrainer

COMPLETIONS = "completions.jsonl"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def run_rl(recipe: RlRecipe) -> int:
    """Trains to the end, or until the stop file appears.

    Returns:
        0 once RUN/model holds the adapter, 85 if the run was asked to stop and saved a checkpoint.

    Raises:
        ProActError: the recipe does not fit the launch, the data or the run folder.
    """
    run = Path(recipe.output_dir)
    checkpoint = newest_complete_checkpoint(run)
    if checkpoint:
        check_same_recipe(recipe, run, KEYS_FREE_ON_RESUME)
    source = model_folder(recipe.model).absolute()
    processor = load_processor(source, recipe.max_pixels)
    decisions, held_out = load_decisions(recipe.train_decisions), held_out_decisions(recipe)
    num_steps = count_steps(recipe, len(decisions))
    arguments = build_arguments(recipe, num_steps)  # before the model: ZeRO-3 shards as it loads
    is_main = arguments.process_index == 0
    if (run / MODEL / COMPLETE).is_file():
        if is_main:
            print(f"{run / MODEL}: this run is finished. Give another output_dir to train anew.")
        return 0
    for path, chosen in (
        (recipe.train_decisions, decisions),
        *([(recipe.held_out_decisions or "", held_out)] if held_out else []),
    ):
        lengths = check_decisions(
            processor,
            chosen,
            path,
            recipe.max_context_tokens,
            recipe.max_completion_length,
            recipe.with_thought,
        )
        if is_main:
            print(f"{path}: {len(chosen):,} decisions, {min(lengths):,} to {max(lengths):,} tokens")

    set_seed(recipe.seed)
    base = load_model(source, load_dtype(recipe), recipe.attn_implementation)
    model: Any = add_lora(base, recipe.lora.r, recipe.lora.alpha)
    use_trunk_attention(model)
    scorer = build_scorer(recipe.rewards, processor, recipe.with_thought)
    sampling = Sampling(recipe.num_generations, recipe.temperature, recipe.max_completion_length)
    trainer = GspoTrainer(
        recipe=recipe,
        decisions=decisions,
        scorer=scorer,
        engine=InProcessEngine(model, processor, sampling),
        num_steps=num_steps,
        on_rows=build_recorder(recipe, run, is_main),
        model=model,
        args=arguments,
        processing_class=processor,
        train_dataset=decisions,
    )
    add_callbacks(trainer, model, recipe)
    if is_main:
        begin_run_folder(recipe, run, checkpoint)
        print(trainable_summary(model))
    before = measure_before(trainer, run, held_out)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.is_stopped:
        if is_main:
            print(f"Stopped at step {trainer.state.global_step}; launch again to go on.")
        return EXIT_CODE_STOPPED
    finish(trainer, run, held_out, before)
    return 0


def count_steps(recipe: RlRecipe, num_decisions: int) -> int:
    """Optimiser steps: `max_steps`, or all epochs over the file times the steps a generation."""
    if recipe.max_steps is not None:
        return recipe.max_steps
    num_slots = recipe.num_train_epochs * num_decisions
    return math.ceil(num_slots / recipe.decisions_per_step) * recipe.num_iterations


def build_recorder(recipe: RlRecipe, run: Path, is_main: bool) -> Any:
    """What happens to a generation's rows: the table, and metrics for the next log."""

    def record(step: int, rows: list[Row]) -> dict[str, float]:
        if is_main and recipe.log_completions:
            with (run / COMPLETIONS).open("a", encoding="utf-8") as file:
                for row in spread(rows, recipe.log_completions):
                    file.write(json.dumps(table_row(row, step), ensure_ascii=False) + "\n")
        return rollout_metrics(rows, recipe.num_generations)

    return record


def add_callbacks(trainer: GspoTrainer, model: Any, recipe: RlRecipe) -> None:
    """Metrics file, progress bar, stop file and gradient watch, in place of printing."""
    callbacks = (
        # Trainer's epoch is of no use: to it, the run is one long epoch.
        MetricsFile(left_out=("epoch",)),
        ProgressBar(("reward", "kl")),
        # A generation that is half used is not saved.
        StopFile(trainer, every_steps=recipe.num_iterations),
        GradientWatch(model),
    )
    replace_printing(trainer, callbacks)


def begin_run_folder(recipe: RlRecipe, run: Path, checkpoint: Path | None) -> None:
    """Writes the recipe, or drops what will be trained again from metrics and table."""
    run.mkdir(parents=True, exist_ok=True)
    if checkpoint is None:
        dump_recipe(recipe, run / "recipe.yaml")
    step = checkpoint_step(checkpoint) if checkpoint else 0
    keep_metrics_until(run, step)
    if (run / COMPLETIONS).is_file():
        whole = [row for row in read_lines(run / COMPLETIONS) if row[1].endswith(b"\n")]
        rows = [parse_object(where, line) for where, line in whole]
        write_jsonl(run / COMPLETIONS, [row for row in rows if row["step"] <= step])


def measure_before(trainer: GspoTrainer, run: Path, held_out: list[Any]) -> Measurement | None:
    """The held-out measurement of the untrained adapter, kept for a resumed run."""
    if not held_out:
        return None
    trainer.accelerator.wait_for_everyone()
    before = load_before(run) or measure_with(trainer, held_out)
    if trainer.is_world_process_zero():
        save_before(run, before)
    return before


def measure_with(trainer: GspoTrainer, held_out: list[Any]) -> Measurement:
    accelerator = trainer.accelerator
    model = accelerator.unwrap_model(trainer.model_wrapped)
    engine = trainer.model_wrapped if model is not trainer.model_wrapped else None
    with whole_weights(model, engine):
        return measure(
            model,
            trainer.scorer,
            trainer.recipe,
            held_out,
            accelerator.process_index,
            accelerator.num_processes,
        )


def finish(
    trainer: GspoTrainer, run: Path, held_out: list[Any], before: Measurement | None
) -> None:
    """Measures again, saves the adapter to RUN/model and proves that it is whole."""
    if before is not None:
        after = measure_with(trainer, held_out)
        if trainer.is_world_process_zero():
            print(describe(write_report(run, trainer.recipe, held_out, before, after)))
    trainer.save_model(str(run / MODEL))
    if trainer.is_world_process_zero():
        check_saved_adapter(run / MODEL)
        mark_complete(run / MODEL)
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()


def check_saved_adapter(folder: Path) -> None:
    """Re-opens the adapter: its weights are whole and its base is a folder. Raises RunError."""
    whole = "a whole adapter that names its base"
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise_incomplete(folder, f"no {ADAPTER_WEIGHTS}", whole)
    check_saved_weights(folder, whole, ADAPTER_WEIGHTS)
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    base = config.get("base_model_name_or_path")
    if not Path(base or "").is_dir():
        raise_incomplete(folder, f"the base {base!r}, which is no folder", whole)
