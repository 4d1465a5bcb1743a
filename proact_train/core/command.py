"""The command line that the stages share: a recipe, overrides, a user's mistake told once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from .errors import EXIT_CODE_USER_ERROR, ProActError
from .recipe import RecipeT, load_recipe


def run_recipe_command(
    program: str,
    description: str,
    model: type[RecipeT],
    load_command: Callable[[], Callable[[RecipeT], int]],
    argv: Sequence[str] | None = None,
) -> int:
    """The command line of a stage: `PROGRAM RECIPE [key=value …]`.

    The recipe is checked before `load_command` imports anything heavy. A user's mistake is printed
    once, by rank 0, without a traceback.

    Returns:
        What the command returns, or 2 after a user's mistake.
    """
    module = program.split()[-1]
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    stage = module.split(".")[1]
    parser.add_argument("recipe", help=f"a YAML file below recipes/{stage}/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="overrides of its keys")
    args = parser.parse_args(argv)
    try:
        recipe = load_recipe(args.recipe, model, args.overrides)
        return load_command()(recipe)
    except ProActError as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"{module}: {error}", file=sys.stderr)
        return EXIT_CODE_USER_ERROR
