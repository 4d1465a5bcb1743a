"""Stage 2: GSPO with LoRA.

  accelerate launch --config_file recipes/accelerate/cpu_2procs.yaml -m proact_train.rl \\
      recipes/rl/toy_cpu.yaml model=runs/sft output_dir=runs/rl max_steps=20

Every key of a recipe is explained in proact_train/rl/recipe.py; `key=value` overrides one.
A run that was stopped goes on from its newest complete checkpoint: launch the same line again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from ..core.errors import EXIT_CODE_USER_ERROR, ProActError
from ..core.recipe import load_recipe
from .recipe import RlRecipe


def run_command(
    program: str,
    description: str,
    load_command: Callable[[], Callable[[RlRecipe], int]],
    argv: Sequence[str] | None = None,
) -> int:
    """Parses, checks the recipe before anything heavy is imported, and runs the command."""
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", help="a YAML file below recipes/rl/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="overrides of its keys")
    args = parser.parse_args(argv)
    try:
        recipe = load_recipe(args.recipe, RlRecipe, args.overrides)
        return load_command()(recipe)
    except ProActError as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"{program.split()[-1]}: {error}", file=sys.stderr)
        return EXIT_CODE_USER_ERROR


def main(argv: Sequence[str] | None = None) -> int:
    def load() -> Callable[[RlRecipe], int]:
        from .run import run_rl

        return run_rl

    return run_command("accelerate launch -m proact_train.rl", __doc__ or "", load, argv)


if __name__ == "__main__":
    sys.exit(main())
