"""What happens beside the steps of a stage: the metrics file, the bar, the stop file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from ..core.run_folder import append_metrics

EXIT_CODE_STOPPED = 85
STOP_FILE_VARIABLE = "PROACT_STOP_FILE"


class MetricsFile(TrainerCallback):
    """Writes every log to RUN/metrics.jsonl, on the main process.

    Args:
        left_out: keys of the log that say nothing in this stage.
    """

    def __init__(self, left_out: Sequence[str] = ()):
        self.left_out = frozenset(left_out)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and logs and "loss" in logs:
            kept = {name: value for name, value in logs.items() if name not in self.left_out}
            append_metrics(args.output_dir, {"step": state.global_step, **kept})


class ProgressBar(ProgressCallback):
    """One bar with the remaining time; `shown` metrics stand in it instead of a line a step."""

    def __init__(self, shown: Sequence[str]):
        super().__init__()
        self.shown = tuple(shown)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and self.training_bar is not None and logs:
            values = {name: f"{logs[name]:.4g}" for name in self.shown if name in logs}
            self.training_bar.set_postfix(values, refresh=False)


class StopFile(TrainerCallback):
    """Saves and ends the run once the file named by PROACT_STOP_FILE exists.

    Args:
        trainer: its `is_stopped` becomes True then.
        every_steps: steps after which a checkpoint is whole; it stops there only.
    """

    def __init__(self, trainer: Any, every_steps: int = 1):
        self.trainer, self.every_steps = trainer, every_steps
        self.path = os.environ.get(STOP_FILE_VARIABLE)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        is_between = state.global_step % self.every_steps != 0
        if not self.path or is_between or state.global_step >= state.max_steps:
            return
        # All ranks must agree: a file may become visible to one of them earlier.
        accelerator = self.trainer.accelerator
        seen = torch.tensor(float(os.path.exists(self.path)), device=accelerator.device)
        if float(accelerator.reduce(seen, reduction="sum")) > 0:
            self.trainer.is_stopped = True
            control.should_save = control.should_training_stop = True


def replace_printing(trainer: Any, callbacks: Sequence[TrainerCallback]) -> None:
    """Puts callbacks in place of transformers' printing."""
    for printing in (ProgressCallback, PrinterCallback):
        trainer.remove_callback(printing)
    for callback in callbacks:
        trainer.add_callback(callback)
