"""Recipes: read strictly, refused with file, line, key and remedy."""

from pathlib import Path

import pytest
from pydantic import Field, model_validator

from proact_train.core.errors import RecipeError
from proact_train.core.recipe import Recipe, dump_recipe, load_recipe


class Optimiser(Recipe):
    beta: float = Field(0.0, ge=0)


class Example(Recipe):
    learning_rate: float
    min_learning_rate: float = 0.0
    optimiser: Optimiser = Optimiser()
    name: str = ""
    num_epochs: int = 1

    @model_validator(mode="after")
    def _check(self) -> "Example":
        if self.min_learning_rate > self.learning_rate:
            raise ValueError("min above max; min at most max; Lower min_learning_rate.")
        return self


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text("# comment\nlearning_rate: 1e-6\noptimiser:\n  beta: 3\n")
    return path


def test_scientific_notation_is_a_number(recipe: Path):
    assert load_recipe(recipe, Example).learning_rate == 1e-6


def test_an_override_reaches_into_a_section(recipe: Path):
    loaded = load_recipe(recipe, Example, ["optimiser.beta=1e-3", "num_epochs=4", "name=a=b"])
    assert (loaded.optimiser.beta, loaded.num_epochs, loaded.name) == (1e-3, 4, "a=b")


def test_dump_and_load_round_trip(recipe: Path, tmp_path: Path):
    loaded = load_recipe(recipe, Example)
    dump_recipe(loaded, tmp_path / "full.yaml")
    assert load_recipe(tmp_path / "full.yaml", Example) == loaded


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("learning_rate: 1\nnum_epoch: 2\n", 2, ["unknown key 'num_epoch'", "'num_epochs'"]),
        ("learning_rate: 1\noptimiser:\n  bta: 2\n", 3, ["unknown key 'optimiser.bta'", "'beta'"]),
        ("learning_rate: 1\nname: 1e-6\n", 2, ["name = 1e-06", "valid string"]),
        ("learning_rate: fast\n", 1, ["learning_rate = 'fast'", "valid number"]),
        ("learning_rate: 1\noptimiser: {beta: -1}\n", 2, ["greater than or equal to 0"]),
        ("learning_rate: .nan\n", 1, ["finite number"]),
        ("learning_rate: 1\nnum_epochs: 1.5\n", 2, ["num_epochs = 1.5"]),
        ("learning_rate: [1\n", None, ["valid YAML"]),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, line: int | None, words: list[str]):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, Example)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}" if line else f"{path}:"), message
    assert all(word in message for word in words), message


def test_a_missing_key_a_missing_file_and_keys_at_odds(tmp_path: Path, recipe: Path):
    with pytest.raises(RecipeError, match="no such file"):
        load_recipe(tmp_path / "none.yaml", Example)
    with pytest.raises(RecipeError, match="min above max; expected min at most max"):
        load_recipe(recipe, Example, ["min_learning_rate=1"])
    recipe.write_text("name: x\n")
    with pytest.raises(RecipeError, match="no key 'learning_rate'"):
        load_recipe(recipe, Example)


@pytest.mark.parametrize("override", ["num_epochs", "=3", "name.first=3", "optimiser.bta=3"])
def test_a_bad_override_is_named(recipe: Path, override: str):
    recipe.write_text("learning_rate: 1\nname: x\n")
    with pytest.raises(RecipeError, match="command line"):
        load_recipe(recipe, Example, [override])


def test_yaml_tags_are_never_executed(tmp_path: Path):
    path = tmp_path / "evil.yaml"
    path.write_text("learning_rate: !!python/object/apply:os.system ['touch x']\n")
    with pytest.raises(RecipeError):
        load_recipe(path, Example)
