"""What happens beside the steps: the metrics file, the bar, the stop file, the gradient watch."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn
from transformers import ProgressCallback, TrainerCallback

from ..core.errors import RunError
from ..core.run_folder import append_metrics

EXIT_CODE_STOPPED = 85
STOP_FILE_VARIABLE = "PROACT_STOP_FILE"


class MetricsFile(TrainerCallback):
    """Writes every log to RUN/metrics.jsonl, on the main process."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and logs and "loss" in logs:
            # Trainer's epoch is of no use: to it, the run is one long epoch.
            kept = {name: value for name, value in logs.items() if name != "epoch"}
            append_metrics(args.output_dir, {"step": state.global_step, **kept})


class ProgressBar(ProgressCallback):
    """One bar with the remaining time; the reward stands in it instead of a line a step."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and self.training_bar is not None and logs:
            shown = {k: f"{logs[k]:.4g}" for k in ("reward", "kl") if k in logs}
            self.training_bar.set_postfix(shown, refresh=False)


class StopFile(TrainerCallback):
    """Saves and ends the run once the file named by PROACT_STOP_FILE exists.

    Only between generations, since one that is half used is not saved.
    """

    def __init__(self, trainer: Any, num_iterations: int):
        self.trainer, self.num_iterations = trainer, num_iterations
        self.path = os.environ.get(STOP_FILE_VARIABLE)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        is_half_used = state.global_step % self.num_iterations != 0
        if not self.path or is_half_used or state.global_step >= state.max_steps:
            return
        # All ranks must agree: a file may become visible to one of them earlier.
        accelerator = self.trainer.accelerator
        seen = torch.tensor(float(os.path.exists(self.path)), device=accelerator.device)
        if float(accelerator.reduce(seen, reduction="sum")) > 0:
            self.trainer.is_stopped = True
            control.should_save = control.should_training_stop = True


class GradientWatch(TrainerCallback):
    """Stops the run after its first step if a trainable tensor got no gradient.

    Hooks on the tensors see the gradient as it is made, also where DeepSpeed takes it away.
    """

    def __init__(self, model: nn.Module):
        self.missing = {name for name, p in model.named_parameters() if p.requires_grad}
        self.handles = [
            parameter.register_hook(lambda _, name=name: self.missing.discard(name))
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles = []
        if self.missing:
            names = sorted(self.missing)
            self.missing = set()
            raise RunError(
                "after the first step",
                f"{len(names)} trainable tensors without gradient ({', '.join(names[:3])} …)",
                "a gradient on every trainable tensor",
                "Check gradient_checkpointing (use_reentrant: false) and the frozen parts.",
            )
