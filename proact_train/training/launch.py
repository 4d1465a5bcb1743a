"""The launch that a stage finds itself in (processes, DeepSpeed, CPU or GPU), and what it saves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import safe_open
from transformers import TrainingArguments
from transformers.integrations import is_deepspeed_zero3_enabled

from ..core.errors import RunError
from ..core.jsonl import write_jsonl
from ..core.run_folder import METRICS, load_metrics


def num_processes() -> int:
    """Processes of this launch."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def uses_deepspeed() -> bool:
    """Whether accelerate was told to use DeepSpeed."""
    return os.environ.get("ACCELERATE_USE_DEEPSPEED", "false") == "true"


def launch_settings() -> dict[str, Any]:
    """The training arguments that follow from the launch: gloo on CPU, but not for one process."""
    has_gpu = torch.cuda.is_available()
    is_cpu_group = not has_gpu and (uses_deepspeed() or num_processes() > 1)
    return {
        "use_cpu": not has_gpu and not uses_deepspeed(),
        "ddp_backend": "gloo" if is_cpu_group else None,
        "ddp_find_unused_parameters": False,
    }


def name_wandb_project(report_to: str) -> None:
    """Gives wandb the project's name unless the environment has one."""
    if report_to == "wandb":
        os.environ.setdefault("WANDB_PROJECT", "proact-stream")


def check_zero3_saves(arguments: TrainingArguments, loss: str) -> None:
    """Refuses a ZeRO-3 launch that would end without weights.

    Args:
        loss: what the run would lack, such as "a model for the next stage".

    Raises:
        RunError: `zero3_save_16bit_model` is off.
    """
    plugin: Any = arguments.deepspeed_plugin
    if is_deepspeed_zero3_enabled() and not plugin.zero3_save_16bit_model:
        raise RunError(
            "the accelerate configuration, zero3_save_16bit_model",
            "false",
            f"true: without it the run would end without {loss}",
            "Set it, as recipes/accelerate/*zero3*.yaml do.",
        )


def keep_metrics_until(run: Path, step: int) -> None:
    """Drops the metrics of steps that will be trained again."""
    if (run / METRICS).is_file():
        write_jsonl(run / METRICS, load_metrics(run, up_to_step=step))


def check_saved_weights(folder: Path, whole: str, pattern: str = "*.safetensors") -> None:
    """Re-opens saved weights: a mistake under ZeRO-3 leaves tensors of size 0.

    Args:
        whole: what was expected, such as "a whole model".

    Raises:
        RunError: no file fits the pattern, or one holds no tensor or an empty one.
    """
    files = sorted(folder.glob(pattern))
    empty = [] if files else [folder.name]
    for path in files:
        with safe_open(path, "pt") as tensors:
            names = list(tensors.keys())
            empty += [name for name in names if 0 in tensors.get_slice(name).get_shape()]
        if not names:
            empty.append(path.name)
    if empty:
        raise_incomplete(folder, f"no weights in {', '.join(empty[:3])}", whole)


def raise_incomplete(folder: Path, found: str, whole: str) -> NoReturn:
    """Raises RunError: what was saved is not whole."""
    raise RunError(
        str(folder),
        found,
        whole,
        "Report this with the accelerate configuration; the last checkpoint is whole.",
    )
