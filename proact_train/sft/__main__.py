"""Stage 1: full-parameter SFT on whole streams.

  accelerate launch --config_file recipes/accelerate/cpu_2procs.yaml \\
      -m proact_train.sft recipes/sft/toy_cpu.yaml output_dir=runs/sft max_steps=20

Every key of a recipe is explained in proact_train/sft/recipe.py; `key=value` overrides one.
A run that was stopped goes on from its newest complete checkpoint: launch the same line again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..core.errors import EXIT_CODE_USER_ERROR, ProActError
from ..core.recipe import load_recipe
from .recipe import SftRecipe


def main(argv: Sequence[str] | None = None) -> int:
    """Parses, checks the recipe before anything heavy is imported, and runs."""
    parser = argparse.ArgumentParser(
        prog="accelerate launch -m proact_train.sft",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", help="a YAML file below recipes/sft/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="overrides of its keys")
    args = parser.parse_args(argv)
    try:
        recipe = load_recipe(args.recipe, SftRecipe, args.overrides)
        from .run import run_sft

        return run_sft(recipe)
    except ProActError as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"proact_train.sft: {error}", file=sys.stderr)
        return EXIT_CODE_USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
