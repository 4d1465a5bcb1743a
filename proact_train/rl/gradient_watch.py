"""The proof that every trained tensor learns."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import TrainerCallback

from ..core.errors import RunError


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
