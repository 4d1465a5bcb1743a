"""What an RL recipe refuses, with the key and the remedy."""

from pathlib import Path

import pytest

from proact_train.core.errors import RecipeError
from proact_train.core.recipe import load_recipe
from proact_train.rl.recipe import RlRecipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes/rl").rglob("*.yaml"))


def test_recipes_are_there():
    assert RECIPES


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_shipped_recipe_loads(path: Path):
    assert load_recipe(path, RlRecipe).num_generations >= 2


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("num_generations=1", "greater than or equal to 2"),
        ("max_context_tokens=40", "at least 48, one frame of max_pixels 4096"),
        ("max_completion_length=2040", "at most 2000, what one frame leaves"),
        ("top_p=0.9", "greater than or equal to 1"),
        ("learning_rat=0.1", "learning_rate"),
        ("rewards.weights.formt=1.0", "format"),
        ("num_iterations=3", "a multiple of num_iterations 3"),
        ("held_out_decisions=null", "names no held_out_decisions"),
        ("beta=-1.0", "greater than or equal to 0"),
        ("rewards.judge=gpt", "similarity"),
    ],
)
def test_a_recipe_at_odds_with_itself_is_refused(override: str, told: str):
    with pytest.raises(RecipeError, match=told.replace("(", r"\(")):
        load_recipe(RECIPES[0].parent / "toy_cpu.yaml", RlRecipe, [override])
