"""Stage 2: GSPO with LoRA.

  accelerate launch --config_file recipes/accelerate/cpu_2procs.yaml -m proact_train.rl \\
      recipes/rl/toy_cpu.yaml model=runs/sft output_dir=runs/rl max_steps=20

Every key of a recipe is explained in proact_train/rl/recipe.py; `key=value` overrides one.
A run that was stopped goes on from its newest complete checkpoint: launch the same line again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from ..core.command import run_recipe_command
from .recipe import RlRecipe


def main(argv: Sequence[str] | None = None) -> int:
    program = "accelerate launch -m proact_train.rl"
    return run_recipe_command(program, __doc__ or "", RlRecipe, _load, argv)


def _load() -> Callable[[RlRecipe], int]:
    from .run import run_rl

    return run_rl


if __name__ == "__main__":
    sys.exit(main())
