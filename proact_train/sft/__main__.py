"""Stage 1: full-parameter SFT on whole streams.

  accelerate launch --config_file recipes/accelerate/cpu_2procs.yaml \\
      -m proact_train.sft recipes/sft/toy_cpu.yaml output_dir=runs/sft max_steps=20

Every key of a recipe is explained in proact_train/sft/recipe.py; `key=value` overrides one.
A run that was stopped goes on from its newest complete checkpoint: launch the same line again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from ..core.command import run_recipe_command
from .recipe import SftRecipe


def main(argv: Sequence[str] | None = None) -> int:
    program = "accelerate launch -m proact_train.sft"
    return run_recipe_command(program, __doc__ or "", SftRecipe, _load, argv)


def _load() -> Callable[[SftRecipe], int]:
    from .run import run_sft

    return run_sft


if __name__ == "__main__":
    sys.exit(main())
