"""How large a demo is: streams of each split and processes. What is trained: the toy recipes."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import RunError

NUM_SHORT, NUM_TRAIN, NUM_RL, NUM_TEST = 4800, 720, 96, 96
RL_STEPS = 24
_FEWEST = 16  # one optimiser step of stage 1
_FEWEST_TEST = 24  # two streams of each domain of intent: a control swaps between them


@dataclass(frozen=True)
class DemoSize:
    """Streams of each split, GSPO steps, and training processes."""

    num_short: int
    num_train: int
    num_rl: int
    num_test: int
    rl_steps: int
    num_processes: int

    @classmethod
    def scaled(cls, scale: float, num_processes: int) -> DemoSize:
        """A share of the full demo.

        Raises:
            RunError: `scale` is not in (0, 1], or the processes do not divide the toy batches.
        """
        if not 0 < scale <= 1:
            raise RunError("--scale", str(scale), "a share above 0 and up to 1", "Correct it.")
        if num_processes not in (1, 2, 4, 8):
            raise RunError(
                "--num-processes", str(num_processes), "1, 2, 4 or 8", "The toy batch divides so."
            )
        return cls(
            num_short=max(_FEWEST, round(NUM_SHORT * scale)),
            num_train=max(_FEWEST, round(NUM_TRAIN * scale)),
            num_rl=max(_FEWEST, round(NUM_RL * scale)),
            num_test=max(_FEWEST_TEST, round(NUM_TEST * scale)),
            rl_steps=max(2, round(RL_STEPS * scale)),
            num_processes=num_processes,
        )
