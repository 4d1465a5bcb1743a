"""GSPO on transformers' Trainer: a step samples, scores, and then updates decision by decision.

Trainer keeps what it is good at: DeepSpeed, the optimiser, accumulation, checkpoints, logging. What
a completion is worth is `scoring.py`, the loss `objective.py`, the log-probs `passes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from transformers import Trainer

from ..core.run_folder import mark_complete
from ..core.types import Decision
from ..model.trunk import Trunk
from .batch import DecisionOrder, Slot, SlotLoader, build_prompts
from .objective import gspo_row_losses
from .passes import group_logps
from .recipe import RlRecipe
from .rollout import Engine, whole_weights
from .rows import Completion, Row
from .scoring import Scorer, score_groups

STATISTICS = ("ratio", "clip_fraction", "kl", "entropy")


@dataclass(frozen=True)
class Group:
    """One decision's completions, ready for the update; the trainer's micro-batch.

    Attributes:
        old_logps: None where one optimiser step uses a generation.
        ref_logps: None at beta 0.
    """

    trunk: Trunk
    completions: tuple[Completion, ...]
    advantages: Tensor
    old_logps: Tensor | None = None
    ref_logps: Tensor | None = None


class GspoTrainer(Trainer):
    """One micro-batch is one decision of this rank.

    The loss is the mean over all rows of all ranks, and so are its gradient and every metric.

    Args:
        on_rows: called on the main process with the rows of all ranks after each generation.
    """

    def __init__(
        self,
        recipe: RlRecipe,
        decisions: Sequence[Decision],
        scorer: Scorer,
        engine: Engine,
        num_steps: int,
        on_rows: Callable[[int, list[Row]], dict[str, float]],
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.recipe, self.decisions, self.scorer, self.engine = recipe, decisions, scorer, engine
        self.num_steps, self.on_rows = num_steps, on_rows
        # compute_loss divides by the rows of the whole step; Trainer must not divide again.
        self.model_accepts_loss_kwargs = False
        self.loss_is_scaled_for_ga = True
        self.is_stopped = False
        self._groups: list[Group] = []
        self._rollout_metrics: dict[str, float] = {}
        self._sums = torch.zeros(len(STATISTICS) + 2, dtype=torch.float64)

    @property
    def num_rows(self) -> int:
        """Rows of one optimiser step, over all ranks."""
        return self.recipe.decisions_per_step * self.recipe.num_generations

    def get_train_dataloader(self) -> Any:
        order = DecisionOrder(len(self.decisions), self.recipe.decisions_per_step, self.recipe.seed)
        return SlotLoader(
            order,
            self.accelerator.process_index,
            self.accelerator.num_processes,
            self.num_steps,
            self.recipe.num_iterations,
            lambda: self.state.global_step,
        )

    def get_batch_samples(
        self, epoch_iterator: Iterator[Slot], num_batches: int, device: torch.device
    ) -> tuple[list, None]:
        """Turns the slots of a step into groups; a generation serves `num_iterations` steps."""
        slots = [slot for _, slot in zip(range(num_batches), epoch_iterator, strict=False)]
        if slots and (self.state.global_step % self.recipe.num_iterations == 0 or not self._groups):
            self._groups = self._generate(slots)
        return [{"group": group} for group in self._groups], None

    def _generate(self, slots: Sequence[Slot]) -> list[Group]:
        """Rollout, rewards, old and reference pass of this rank's decisions."""
        decisions = [self.decisions[slot.decision_idx] for slot in slots]
        model = self.accelerator.unwrap_model(self.model_wrapped)
        engine = self.model_wrapped if self.is_deepspeed_enabled else None
        with whole_weights(model, engine):
            prompts = build_prompts(model, self.scorer.processor, decisions)
            completions = self.engine.sample(prompts, [slot.seed for slot in slots])
        rows = score_groups(self.scorer, decisions, completions)
        self._report(rows)
        return [
            self._with_frozen_passes(
                Group(
                    prompt.trunk,
                    tuple(group),
                    torch.tensor([row.advantage for row in group_rows]),
                )
            )
            for prompt, group, group_rows in zip(prompts, completions, rows, strict=True)
        ]

    def _report(self, rows: Sequence[Sequence[Row]]) -> None:
        local = [row for group in rows for row in group]
        everyone = gather_object(local) if self.accelerator.num_processes > 1 else local
        # The step that these rows will make.
        self._rollout_metrics = self.on_rows(self.state.global_step + 1, everyone)

    @torch.no_grad()
    def _with_frozen_passes(self, group: Group) -> Group:
        """Old and reference log-probs, where the recipe needs them."""
        model: Any = self.model_wrapped
        temperature = self.recipe.temperature
        was_training = model.training
        model.eval()  # no dropout in what the new log-probs are held against
        if self.recipe.num_iterations > 1:
            old = group_logps(model, group.trunk, group.completions, temperature)
            group = replace(group, old_logps=old.logps)
        if self.recipe.beta > 0:
            unwrapped: Any = self.accelerator.unwrap_model(model)
            with unwrapped.disable_adapter():
                reference = group_logps(model, group.trunk, group.completions, temperature)
            group = replace(group, ref_logps=reference.logps)
        model.train(was_training)
        return group

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Tensor:
        """This group's share of the mean over all rows, times the ranks: they average gradients."""
        group: Group = inputs["group"]
        passed = group_logps(model, group.trunk, group.completions, self.recipe.temperature)
        mask = passed.mask
        if self.recipe.mask_truncated_completions:
            keep = torch.tensor([not completion.is_truncated for completion in group.completions])
            mask = mask & keep.to(mask.device)[:, None]
        rows = gspo_row_losses(
            passed.logps,
            mask,
            group.advantages.to(passed.logps),
            self.recipe.epsilon,
            self.recipe.beta,
            group.old_logps,
            group.ref_logps,
        )
        num_tokens = passed.mask.sum().double()
        entropy = (passed.entropies * passed.mask).sum()
        values = (rows.ratio.sum(), rows.is_clipped.sum(), rows.kl.sum(), entropy)
        summed = torch.stack([value.double() for value in values])
        counts = torch.stack([torch.full_like(num_tokens, len(mask)), num_tokens])
        self._sums = self._sums.to(summed.device) + torch.cat([summed, counts])
        return rows.loss.sum() / self.num_rows * self.accelerator.num_processes

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the generation's metrics and the loss's statistics, over all ranks."""
        if "loss" in logs:
            sums: Any = self.accelerator.reduce(self._sums, reduction="sum")
            self._sums = torch.zeros_like(self._sums)
            num_rows, num_tokens = sums[-2].item(), sums[-1].item()
            divisors = (num_rows, num_rows, num_rows, num_tokens)
            for idx, (name, divisor) in enumerate(zip(STATISTICS, divisors, strict=True)):
                logs[name] = sums[idx].item() / max(divisor, 1.0)
            logs |= self._rollout_metrics
        super().log(logs, start_time)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        return 0  # Trainer's estimate reads token tensors; `proact preflight` counts properly

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Saves on every rank and marks the folder complete after the last one has written."""
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            mark_complete(Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}")
