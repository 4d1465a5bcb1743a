"""Sampling completions. The trainer knows `Engine`; the in-process engine is the default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..model.conversation import end_of_turn_id
from ..model.load import forbidden_token_ids
from ..model.trunk_decoding import sample_completions
from .batch import Prompt
from .rows import Completion


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn, from the whole vocabulary but for the vision ids."""

    num_generations: int
    temperature: float
    max_completion_length: int


class Engine(Protocol):
    """Whatever samples groups of completions."""

    def sample(self, prompts: Sequence[Prompt], seeds: Sequence[int]) -> list[list[Completion]]:
        """Samples one group for each prompt; equal weights, prompt and seed give equal samples."""
        ...


class InProcessEngine:
    """Samples with the very model that trains: one prefill a prompt, one cache for its group.

    Vision ids are forbidden: a sampled image token would ask for features that do not exist.
    """

    def __init__(self, model: Any, processor: Any, sampling: Sampling):
        self.model, self.sampling = model, sampling
        self.end_id = end_of_turn_id(processor)
        self.forbidden = forbidden_token_ids(processor)

    def sample(self, prompts: Sequence[Prompt], seeds: Sequence[int]) -> list[list[Completion]]:
        return [self._group(p, seed) for p, seed in zip(prompts, seeds, strict=True)]

    def _group(self, prompt: Prompt, seed: int) -> list[Completion]:
        generator = torch.Generator(prompt.trunk.input_ids.device).manual_seed(seed)
        sampled = sample_completions(
            self.model,
            prompt.trunk,
            self.sampling.num_generations,
            self.sampling.max_completion_length,
            self.sampling.temperature,
            generator,
            self.forbidden,
            self.end_id,
        )
        return [Completion(one.token_ids, one.logps, one.is_truncated) for one in sampled]


@contextmanager
def whole_weights(model: Any, engine: Any | None) -> Iterator[None]:
    """Under ZeRO-3: gathers every parameter and lifts the hooks, so that ranks decode at their own
    pace. Elsewhere it does nothing.

    Args:
        model: the unwrapped model.
        engine: the DeepSpeed engine around it, None before training begins.
    """
    parameters = list(model.parameters())
    if not any(hasattr(parameter, "ds_id") for parameter in parameters):
        yield
        return
    import deepspeed
    from trl.models.utils import add_hooks, remove_hooks

    with deepspeed.zero.GatheredParameters(parameters):
        if engine is not None:
            remove_hooks(engine)
        try:
            yield
        finally:
            if engine is not None:
                add_hooks(engine)
