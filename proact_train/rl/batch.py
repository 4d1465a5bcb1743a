"""Decisions as token rows, and which decisions a step takes on which rank."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import RunError
from ..core.types import Decision
from ..model.conversation import count_tokens, encode
from ..model.trunk import Trunk, prepare_trunk
from ..stream.grammar import CLOSE, OPEN


@dataclass(frozen=True)
class Slot:
    """One decision of one generation.

    Attributes:
        decision_idx: into the file.
        seed: of its sampling; it depends on the recipe's seed, the generation and the slot alone,
            so that the number of ranks changes no sample.
    """

    decision_idx: int
    seed: int


@dataclass(frozen=True)
class Prompt:
    """A decision ready to be continued: its tokens and vision features, made once a step."""

    decision: Decision
    trunk: Trunk


def build_prompts(model: Any, processor: Any, decisions: Sequence[Decision]) -> list[Prompt]:
    """Tokenizes decisions and runs the frozen vision tower over their frames.

    Args:
        model: the unwrapped model, with whole weights.
    """
    return [
        Prompt(
            decision,
            prepare_trunk(
                model, encode(processor, decision.prompt, decision.images, decision.decision_id)
            ),
        )
        for decision in decisions
    ]


def check_decisions(
    processor: Any,
    decisions: Sequence[Decision],
    path: str,
    max_context_tokens: int,
    max_completion_length: int,
    with_thought: bool,
) -> list[int]:
    """Checks what every decision needs before a step is taken; returns the prompts' lengths.

    Raises:
        RunError: no decisions, a prompt that leaves no room for the completion, or a history of the
            other kind of answers.
    """
    if not decisions:
        raise RunError(path, "no decisions", "at least one", "Build some with `proact build rl`.")
    lengths = []
    for decision in decisions:
        where = f"{path}, decision {decision.decision_id!r}"
        length = count_tokens(processor, decision.prompt, decision.images, where)
        if length + max_completion_length > max_context_tokens:
            raise RunError(
                where,
                f"{length} prompt tokens and max_completion_length {max_completion_length}",
                f"at most max_context_tokens {max_context_tokens}; nothing is truncated here",
                "Build with a smaller --max-context-tokens, which drops whole turns, or raise it.",
            )
        _check_history(where, decision, with_thought)
        lengths.append(length)
    return lengths


def _check_history(where: str, decision: Decision, with_thought: bool) -> None:
    for message in decision.prompt:
        if message["role"] != "assistant":
            continue
        text = "".join(part.get("text", "") for part in message["content"])
        if (OPEN in text and CLOSE in text) != with_thought:
            raise RunError(
                where,
                f"the history answer {text[:60]!r}",
                f"answers {'with' if with_thought else 'without'} a thought",
                "Set with_thought as the file was built.",
            )


class DecisionOrder:
    """Which decisions a generation takes: seeded permutations of the file, one after the other."""

    def __init__(self, num_decisions: int, decisions_per_step: int, seed: int):
        assert num_decisions > 0
        self.num_decisions, self.decisions_per_step = num_decisions, decisions_per_step
        self.seed = seed

    def generation(self, generation: int) -> list[Slot]:
        """The slots of a generation over all ranks, in order; a pure function of its number."""
        first = generation * self.decisions_per_step
        return [
            Slot(
                self._permutation(at // self.num_decisions)[at % self.num_decisions],
                zlib.crc32(f"{self.seed}/{generation}/{at - first}".encode()),
            )
            for at in range(first, first + self.decisions_per_step)
        ]

    def _permutation(self, epoch: int) -> list[int]:
        return random.Random(f"{self.seed}/{epoch}").sample(
            range(self.num_decisions), self.num_decisions
        )


class SlotLoader:
    """The trainer's data loader: this rank's slots, one at a time, from the current step on.

    A resumed run begins where the checkpoint stands, so nothing needs to be skipped.
    """

    def __init__(
        self,
        order: DecisionOrder,
        rank: int,
        num_ranks: int,
        num_steps: int,
        num_iterations: int,
        current_step: Callable[[], int],
    ):
        assert order.decisions_per_step % num_ranks == 0
        self.order, self.rank = order, rank
        self.num_local = order.decisions_per_step // num_ranks
        self.num_steps, self.num_iterations = num_steps, num_iterations
        self.current_step = current_step

    def __len__(self) -> int:
        return self.num_steps * self.num_local

    def __iter__(self) -> Iterator[Slot]:
        for step in range(self.current_step(), self.num_steps):
            slots = self.order.generation(step // self.num_iterations)
            yield from slots[self.rank * self.num_local :][: self.num_local]
