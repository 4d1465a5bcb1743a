"""Stage 1's recipe: bounds, cross-checks, shipped files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proact_train.core.errors import RecipeError
from proact_train.core.recipe import dump_recipe, load_recipe
from proact_train.sft.recipe import SftRecipe

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "recipes/sft").rglob("*.yaml"))


def load(tmp_path: Path, *overrides: str) -> SftRecipe:
    path = tmp_path / "recipe.yaml"
    path.write_text("model: m\ntrain_samples: s.jsonl\noutput_dir: run\n")
    return load_recipe(path, SftRecipe, overrides)


def test_defaults_are_the_papers(tmp_path: Path) -> None:
    recipe = load(tmp_path)
    assert (recipe.learning_rate, recipe.min_lr, recipe.batch_size) == (1e-6, 1e-7, 16)
    assert (recipe.max_context_tokens, recipe.num_train_epochs) == (131_072, 2)
    assert recipe.max_pixels == 1_003_520
    assert not recipe.train_vision


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["min_lr=1e-5"], "min_lr"),
        (["learning_rate=0"], "learning_rate"),
        (["learning_rate=fast"], "learning_rate"),
        (["batch_size=16", "micro_batch_size=3"], "micro_batch_size"),
        (["max_context_tokens=1000"], "max_context_tokens"),
        (["encoded_cache_mib=10"], "encoded_cache_mib"),
        (["keep_checkpoints=1"], "keep_checkpoints"),
        (["report_to=tensorboard"], "report_to"),
        (["learning_rat=1e-5"], "learning_rat"),
    ],
)
def test_refuses_what_cannot_run(tmp_path: Path, overrides: list[str], key: str) -> None:
    with pytest.raises(RecipeError, match=key):
        load(tmp_path, *overrides)


def test_shipped_recipes_are_valid_and_survive_a_round_trip(tmp_path: Path) -> None:
    assert SHIPPED
    for path in SHIPPED:
        recipe = load_recipe(path, SftRecipe)
        dump_recipe(recipe, tmp_path / "dump.yaml")
        assert load_recipe(tmp_path / "dump.yaml", SftRecipe) == recipe, path


def test_checking_a_recipe_imports_no_torch() -> None:
    code = "import sys, proact_train.sft.__main__; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
