"""transformers' training arguments for a recipe under the current launch."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import TrainingArguments

from ..core.errors import RunError
from ..training.launch import (
    check_zero3_saves,
    launch_settings,
    name_wandb_project,
    num_processes,
)
from .recipe import RlRecipe


def build_arguments(recipe: RlRecipe, num_steps: int) -> TrainingArguments:
    """One micro-batch is one decision; accumulation makes up the rest of a rank's share.

    Raises:
        RunError: the decisions of a step do not divide by the ranks, or ZeRO-3 would end without a
            loadable adapter.
    """
    num_ranks = num_processes()
    if recipe.decisions_per_step % num_ranks:
        raise RunError(
            "decisions_per_step",
            f"{recipe.decisions_per_step} decisions over {num_ranks} processes",
            f"a multiple of {num_ranks}",
            "Change decisions_per_step or the number of processes.",
        )
    name_wandb_project(recipe.report_to)
    arguments = TrainingArguments(
        output_dir=recipe.output_dir,
        run_name=recipe.run_name or Path(recipe.output_dir).name,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=recipe.decisions_per_step // num_ranks,
        max_steps=num_steps,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type=recipe.lr_scheduler_type,
        warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        adam_beta1=recipe.adam_beta1,
        adam_beta2=recipe.adam_beta2,
        max_grad_norm=recipe.max_grad_norm,
        seed=recipe.seed,
        bf16=recipe.dtype == "bfloat16",
        gradient_checkpointing=recipe.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        remove_unused_columns=False,
        ignore_data_skip=True,  # the slot loader begins where the checkpoint stands
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to=recipe.report_to,
        save_steps=recipe.save_steps,
        save_total_limit=recipe.keep_checkpoints,
        **launch_settings(),
    )
    check_zero3_saves(arguments, "an adapter that can be loaded")
    return arguments


def load_dtype(recipe: RlRecipe) -> torch.dtype:
    """The base's; the adapter's weights are float32, or DeepSpeed keeps float32 masters."""
    return torch.bfloat16 if recipe.dtype == "bfloat16" else torch.float32
