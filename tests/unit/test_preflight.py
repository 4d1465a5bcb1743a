"""What `proact preflight` says of the shipped recipes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from proact_train.cli import main
from proact_train.core.errors import RecipeError
from proact_train.core.recipe import load_recipe
from proact_train.preflight import forecast_frames, load_stage_recipe, read_launch, rl_batch
from proact_train.rl.recipe import RlRecipe
from proact_train.sft.recipe import SftRecipe

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
SHIPPED = sorted(path for stage in ("sft", "rl", "eval") for path in (RECIPES / stage).glob("*"))


def report(capsys, *arguments):
    assert main(["preflight", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_all_recipes_are_found():
    names = {f"{path.parent.name}/{path.stem}" for path in SHIPPED}
    kinds = ("toy_cpu", "qwen3vl_8b_paper", "qwen3vl_8b_recommended")
    assert names >= {f"{stage}/{kind}" for stage in ("sft", "rl", "eval") for kind in kinds}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_shipped_recipe_validates(path):
    load_stage_recipe(str(path), None, [])


@pytest.mark.parametrize("path", [p for p in SHIPPED if "8b" in p.stem], ids=lambda p: p.stem)
def test_the_8b_recipes_leave_no_key_to_a_default(path):
    recipe = load_stage_recipe(str(path), None, [])
    assert recipe.model_fields_set == set(type(recipe).model_fields)


def test_paper_settings_of_sft():
    recipe = load_recipe(RECIPES / "sft/qwen3vl_8b_paper.yaml", SftRecipe)
    assert (recipe.learning_rate, recipe.min_lr) == (1e-6, 1e-7)
    assert (recipe.batch_size, recipe.micro_batch_size, recipe.num_train_epochs) == (16, 1, 2)
    assert (recipe.max_context_tokens, recipe.max_pixels) == (131_072, 1_003_520)
    assert not recipe.train_vision


def test_paper_settings_of_rl():
    recipe = load_recipe(RECIPES / "rl/qwen3vl_8b_paper.yaml", RlRecipe)
    assert (recipe.lora.r, recipe.lora.alpha, recipe.learning_rate) == (32, 128, 1e-6)
    assert recipe.decisions_per_step * recipe.num_generations == 64
    assert (recipe.num_generations, recipe.beta, recipe.epsilon) == (16, 0.001, 0.2)
    assert (recipe.max_context_tokens, recipe.max_pixels) == (20_000, 200_704)
    assert (recipe.num_train_epochs, recipe.temperature, recipe.top_p) == (1, 1.0, 1.0)
    rewards = recipe.rewards
    assert set(rewards.weights.model_dump().values()) == {1.0}
    assert rewards.min_thought_tokens == 0
    assert not rewards.exact_markers
    assert not rewards.response_needs_format


def test_the_recommended_rl_recipe_closes_the_holes_and_feeds_every_rank():
    recipe = load_recipe(RECIPES / "rl/qwen3vl_8b_recommended.yaml", RlRecipe)
    rewards = recipe.rewards
    assert rewards.min_thought_tokens == 4
    assert rewards.exact_markers
    assert rewards.response_needs_format
    batch = rl_batch(recipe, ranks=16)
    assert (batch["idle_ranks"], batch["completions"], batch["warning"]) == (0, 256, None)


def test_accelerate_configurations():
    launches = {path.stem: read_launch(path) for path in (RECIPES / "accelerate").glob("*.yaml")}
    assert launches == {
        "cpu_2procs": (2, 0),
        "cpu_zero2": (2, 2),
        "cpu_zero3": (2, 3),
        "single_gpu": (1, 0),
        "zero2": (8, 2),
        "zero3_2nodes": (16, 3),
    }


def test_rl_forecast_of_the_paper(capsys):
    forecast = report(capsys, RECIPES / "rl/qwen3vl_8b_paper.yaml")
    assert forecast["parameters"] == 8_767_123_696
    assert forecast["trainable"] == 87_293_952
    assert forecast["frames"]["tokens_ceiling"] == 196
    assert forecast["batch"]["idle_ranks"] == 12
    # 16 x (20,000 + 80) against 20,000 + 16 x 80
    assert forecast["batch"]["plain_tokens_per_decision"] == 321_280
    assert forecast["batch"]["trunk_tokens_per_decision"] == 21_280
    assert forecast["batch"]["token_saving_per_rank"] == pytest.approx(15.1)
    assert forecast["batch"]["token_saving_if_split_over_idle_ranks"] == pytest.approx(3.95)
    assert forecast["memory"]["phases"]["rollout"]["kv_cache_trunk"] == 144 * 1024 * 20_000


def test_sft_forecast_of_the_paper_and_its_text(capsys):
    path = RECIPES / "sft/qwen3vl_8b_paper.yaml"
    forecast = report(capsys, path)
    assert forecast["trainable"] == 8_767_123_696 - forecast["vision_parameters"]
    assert forecast["frames"]["tokens_ceiling"] == 980
    assert forecast["batch"]["tokens_per_gpu"] == 131_072
    memory = forecast["memory"]
    phases = [sum(parts.values()) for parts in memory["phases"].values()]
    assert memory["peak"] == sum(memory["standing"].values()) + max(phases)
    assert main(["preflight", str(path)]) == 0
    text = capsys.readouterr().out
    for piece in ("8.767B", "at most 980", "131,072 tokens a GPU", "checkpoints", "peak"):
        assert piece in text


def test_a_forecast_above_the_limit_is_refused(capsys):
    path = RECIPES / "sft/qwen3vl_8b_paper.yaml"
    assert main(["preflight", str(path), "gpu_memory_gib=40.0"]) == 2
    assert "gpu_memory_gib: found a forecast of" in capsys.readouterr().err
    assert main(["preflight", str(path), "activation_offload=false"]) == 2
    assert "most of it checkpoints (36.0 GiB)" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["sft", "rl", "eval"])
def test_toy_recipes_fit_a_laptop(capsys, stage):
    forecast = report(capsys, RECIPES / stage / "toy_cpu.yaml")
    assert forecast["parameters"] < 2e6
    if "memory" in forecast:
        assert forecast["memory"]["peak"] < 4 * 1024**3


def test_a_launch_that_does_not_divide_is_told(capsys):
    launch = RECIPES / "accelerate/zero3_2nodes.yaml"
    path = RECIPES / "sft/qwen3vl_8b_paper.yaml"
    forecast = report(capsys, path, "batch_size=24", "--accelerate", launch)
    assert "does not divide by 16 ranks" in forecast["batch"]["warning"]


def test_a_misspelt_key_names_file_line_and_neighbour(tmp_path, capsys):
    text = (RECIPES / "rl/qwen3vl_8b_paper.yaml").read_text().replace("beta:", "bata:")
    path = tmp_path / "rl" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(text)
    assert main(["preflight", str(path)]) == 2
    line = next(i for i, row in enumerate(text.splitlines(), 1) if row.startswith("bata"))
    assert f"mine.yaml:{line}" in (message := capsys.readouterr().err)
    assert "'beta'" in message


def test_unknown_stage_missing_launch_and_foreign_model(tmp_path):
    recipe = RECIPES / "sft/toy_cpu.yaml"
    with pytest.raises(RecipeError, match="--stage"):
        load_stage_recipe(str(tmp_path / "mine.yaml"), None, [])
    with pytest.raises(RecipeError, match="accelerate configuration"):
        read_launch(tmp_path / "none.yaml")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    config = ["--model-config", str(tmp_path / "config.json")]
    assert main(["preflight", str(recipe), *config]) == 2


@pytest.mark.parametrize(("size", "tokens"), [((1920, 1080), 943), ((1280, 720), 880)])
def test_tokens_of_the_datas_own_frames(tmp_path, size, tokens):
    Image.new("RGB", size).save(tmp_path / "frame.jpg")
    image = {"role": "user", "content": [{"type": "text", "text": "<0.0 seconds>"}]}
    image["content"].append({"type": "image"})
    answer = {"role": "assistant", "content": [{"type": "text", "text": "<Silence>"}]}
    sample = {"stream_id": "s", "messages": [image, answer], "images": ["frame.jpg"]}
    (tmp_path / "samples.jsonl").write_text(json.dumps(sample) + "\n")
    recipe = load_recipe(
        RECIPES / "sft/qwen3vl_8b_paper.yaml",
        SftRecipe,
        [f"train_samples={tmp_path / 'samples.jsonl'}"],
    )
    frames = forecast_frames(recipe)
    assert (frames["tokens_measured"], frames["frames_measured"]) == (tokens, 1)
