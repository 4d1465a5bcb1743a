"""trl's SFTTrainer with weighted answers: the loss, the log, whole checkpoints.

Batches come from `collator.py`; the run around it is `run.py`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Trainer
from trl import SFTTrainer

from ..core.run_folder import mark_complete
from .collator import ANSWER_CLASSES

_EXTRA_KEYS = ("loss_weights", "class_ids", "turn_counts")
_NUM_CLASSES = len(ANSWER_CLASSES)


class WeightedSftTrainer(SFTTrainer):
    """Minimises sum(w * -log p) / sum(w) over the answers' tokens of the *global* batch.

    The sum of weights runs over all processes and accumulation steps, so the loss and its gradient
    do not depend on how a batch is split. Log-probs come from trl's fused LM head; full logits are
    never made.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        # Qwen3-VL declares False, whereupon Trainer would average means over ranks and steps.
        self.model_accepts_loss_kwargs = True
        self.loss_is_scaled_for_ga = True
        self.is_stopped = False
        # Rows: tokens scored, tokens correct, answers; columns: thoughts, then the classes. A last
        # row counts all tokens read, in its first column.
        self._counts = torch.zeros(4, 1 + _NUM_CLASSES, dtype=torch.float64)
        self._last_log = (0, time.perf_counter())

    def _get_num_items_in_batch(self, batch_samples: list, device: torch.device) -> Tensor | None:
        """Sum of the loss weights over all processes and accumulation steps."""
        if not batch_samples:
            return None
        weights = sum(batch["loss_weights"][:, 1:].sum() for batch in batch_samples)
        assert isinstance(weights, Tensor)
        weights = weights.to(device)
        return self.accelerator.gather(weights).sum()  # type: ignore[union-attr]

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The weighted loss; times the number of processes, because they average gradients."""
        assert isinstance(num_items_in_batch, Tensor), "the sum of weights comes with every step"
        extra = {key: inputs[key] for key in _EXTRA_KEYS}
        forward_inputs = {key: value for key, value in inputs.items() if key not in _EXTRA_KEYS}
        outputs = model(**forward_inputs, use_cache=False, fused_lm_head=True)
        weighted = -(outputs.log_probs * extra["loss_weights"][:, 1:]).sum()
        # Clamped, so that a batch whose weights are all 0 gives 0 and not 0 / 0.
        loss = weighted / num_items_in_batch.clamp(min=1e-8) * self.accelerator.num_processes
        self._count(outputs, extra, inputs["attention_mask"])
        return (loss, outputs) if return_outputs else loss

    @torch.no_grad()
    def _count(self, outputs: Any, extra: dict[str, Tensor], attention_mask: Tensor) -> None:
        """Adds one forward pass to this process's counts; nothing is gathered before the log."""
        class_ids = extra["class_ids"][:, 1:][outputs.label_mask]
        is_top1 = outputs.is_top1[outputs.label_mask].double()
        counts = torch.zeros_like(self._counts, device=class_ids.device)
        counts[0] = torch.bincount(class_ids, minlength=1 + _NUM_CLASSES)
        counts[1] = torch.bincount(class_ids, weights=is_top1, minlength=1 + _NUM_CLASSES)
        counts[2, 1:] = extra["turn_counts"].sum(0)
        counts[3, 0] = attention_mask.sum()
        self._counts = self._counts.to(counts.device) + counts

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds accuracies and counts since the last log, over all processes."""
        if "loss" in logs:
            counts = self.accelerator.reduce(self._counts, reduction="sum")
            self._counts = torch.zeros_like(self._counts)
            assert isinstance(counts, Tensor)
            logs |= describe_counts(counts.cpu())
            logs["num_tokens"] = float(counts[3, 0])
            step, now = self.state.global_step, time.perf_counter()
            logs["step_s"] = (now - self._last_log[1]) / max(1, step - self._last_log[0])
            self._last_log = (step, now)
        Trainer.log(self, logs, start_time)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Saves on every rank and marks the folder complete after the last one has written."""
        Trainer._save_checkpoint(self, model, trial)  # without trl's model card
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            run = Path(str(self.args.output_dir))
            mark_complete(run / f"checkpoint-{self.state.global_step}")


def describe_counts(counts: Tensor) -> dict[str, float]:
    """Names the counts: token accuracy over all and by class, answers over all and by class.

    A class without a token has no accuracy (the key is left out, it is not 0).
    """
    metrics: dict[str, float] = {}
    num_tokens, num_correct, num_turns = counts[:3]
    if num_tokens.sum() > 0:
        metrics["accuracy"] = float(num_correct.sum() / num_tokens.sum())
    metrics["num_completions"] = float(num_turns.sum())
    for idx, name in enumerate(("thought", *ANSWER_CLASSES)):
        if num_tokens[idx] > 0:
            metrics[f"accuracy_{name}"] = float(num_correct[idx] / num_tokens[idx])
        if idx:
            metrics[f"num_{name}"] = float(num_turns[idx])
    return metrics
