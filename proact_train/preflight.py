"""Validates a recipe and forecasts parameters, tokens and GPU memory before a GPU is taken.

  proact preflight recipes/sft/qwen3vl_8b_paper.yaml
  proact preflight recipes/rl/qwen3vl_8b_paper.yaml --json

The stage is the recipe's folder (sft, rl or eval). Dimensions come from the recipe's model where
that folder stands, else from recipes/models/ (qwen3vl_8b.json; tiny.json for a float32 recipe), and
the report says which. A forecast above the recipe's gpu_memory_gib is refused with exit code 2.
Formulas: model/forecast.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from .core.errors import RecipeError
from .core.recipe import Recipe, load_recipe
from .core.run_folder import MODEL
from .model import forecast
from .model.forecast import GIB, Dimensions, Parameters
from .stream.resize import TEXT_TOKENS_PER_TURN, TOKEN_SIDE_PX, tokens_per_frame

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
SHIPPED_CONFIG, SHIPPED_TINY_CONFIG = (
    RECIPES / "models/qwen3vl_8b.json",
    RECIPES / "models/tiny.json",
)
# A thought of 16 to 22 tokens, an answer of 26 to 37, tags and end of turn.
TYPICAL_COMPLETION_TOKENS = 80
NUM_FRAMES_LOOKED_AT = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a YAML file below recipes/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="overrides of its keys")
    parser.add_argument("--stage", choices=("sft", "rl", "eval"), help="default: the folder's name")
    parser.add_argument(
        "--accelerate",
        type=Path,
        help="the launch (ranks, ZeRO stage); default: recipes/accelerate/zero3_2nodes.yaml, "
        "cpu_zero3.yaml for a float32 recipe",
    )
    parser.add_argument("--model-config", type=Path, help="a config.json instead of the model's")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> None:
    """Prints the report; a forecast above gpu_memory_gib is a RecipeError after it."""
    recipe = load_stage_recipe(args.recipe, args.stage, args.overrides)
    launch_path = args.accelerate or default_launch(recipe)
    report = build_report(recipe, launch_path, args.model_config)
    print(json.dumps(report, indent=2) if args.json else render(report))
    refuse_excess(args.recipe, report)


def load_stage_recipe(path: str, stage: str | None, overrides: list[str]) -> Any:
    """Validates a recipe by its stage's model. Raises RecipeError."""
    stage = stage or Path(path).resolve().parent.name
    if stage == "sft":
        from .sft.recipe import SftRecipe as model
    elif stage == "rl":
        from .rl.recipe import RlRecipe as model
    elif stage == "eval":
        from eval.recipe import EvalRecipe as model
    else:
        raise RecipeError(
            path, f"the folder {stage!r}", "a recipe below sft/, rl/ or eval/", "Give --stage."
        )
    return load_recipe(path, model, overrides)


def default_launch(recipe: Recipe) -> Path:
    """Two nodes of eight GPUs; float32 is what CPU recipes train in."""
    is_cpu = getattr(recipe, "dtype", None) == "float32"
    return RECIPES / "accelerate" / ("cpu_zero3.yaml" if is_cpu else "zero3_2nodes.yaml")


def build_report(recipe: Any, launch_path: Path, config_path: Path | None = None) -> dict[str, Any]:
    """The whole forecast as one JSON object; sizes in bytes under `memory`."""
    config_path = config_path or find_config(recipe)
    config = forecast.load_config(config_path)
    dims = forecast.read_dimensions(config)
    stage = {"SftRecipe": "sft", "RlRecipe": "rl"}.get(type(recipe).__name__, "eval")
    lora = (recipe.lora.r, recipe.lora.alpha) if stage == "rl" else None
    parameters = forecast.count_parameters(
        config, lora, vision=getattr(recipe, "train_vision", False)
    )
    ranks, zero_stage = read_launch(launch_path)
    report: dict[str, Any] = {
        "stage": stage,
        "model_config": str(config_path),
        "parameters": parameters.total,
        "vision_parameters": parameters.vision,
        "trainable": 0 if stage == "eval" else parameters.trainable,
        "frames": forecast_frames(recipe),
    }
    if stage == "eval":
        return report
    report["launch"] = {"path": str(launch_path), "ranks": ranks, "zero_stage": zero_stage}
    report["batch"] = sft_batch(recipe, ranks) if stage == "sft" else rl_batch(recipe, ranks)
    memory = sft_memory if stage == "sft" else rl_memory
    report["memory"] = memory(recipe, dims, parameters, zero_stage, ranks)
    report["memory"]["limit"] = int(recipe.gpu_memory_gib * GIB)
    return report


def find_config(recipe: Any) -> Path:
    """The recipe's model or finished run where it stands, else the dimensions shipped here."""
    model = Path(getattr(recipe, "model", ""))
    standing = [folder / "config.json" for folder in (model / MODEL, model)]
    shipped = SHIPPED_TINY_CONFIG if recipe.dtype == "float32" else SHIPPED_CONFIG
    return next((path for path in standing if path.is_file()), shipped)


def read_launch(path: Path) -> tuple[int, int]:
    """Number of ranks and ZeRO stage of an accelerate configuration. Raises RecipeError."""
    from ruamel.yaml import YAML, YAMLError

    try:
        values = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        ranks = int(values["num_processes"])
        deepspeed = values.get("deepspeed_config") or {}
        return ranks, int(deepspeed.get("zero_stage", 0))
    except (OSError, YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecipeError(
            str(path),
            f"{type(error).__name__} {error}",
            "an accelerate configuration",
            "Choose one of recipes/accelerate/.",
        ) from None


def forecast_frames(recipe: Any) -> dict[str, Any]:
    """Image tokens a frame: the ceiling of max_pixels, and the data's own where it stands."""
    ceiling = recipe.max_pixels // TOKEN_SIDE_PX**2
    frames: dict[str, Any] = {"max_pixels": recipe.max_pixels, "tokens_ceiling": ceiling}
    frames |= measure_frames(recipe)
    context = getattr(recipe, "max_context_tokens", None)
    if context:
        used = frames.get("tokens_measured", ceiling)
        frames["frames_in_context"] = int(context // (used + TEXT_TOKENS_PER_TURN))
    return frames


def measure_frames(recipe: Any) -> dict[str, Any]:
    """Mean tokens of frames spread over the data; only image headers are read."""
    from PIL import Image

    from .core.contracts import load_decisions, load_samples

    for key, load in (("train_samples", load_samples), ("train_decisions", load_decisions)):
        path = getattr(recipe, key, None)
        if path and Path(path).is_file():
            images = [image for row in load(path) for image in row.images]
            chosen = images[:: max(1, len(images) // NUM_FRAMES_LOOKED_AT)]
            sizes = [Image.open(image).size for image in chosen]
            tokens = [tokens_per_frame(h, w, recipe.max_pixels) for w, h in sizes]
            if tokens:
                mean = round(statistics.fmean(tokens), 1)
                return {"tokens_measured": mean, "frames_measured": len(tokens)}
    return {}


def sft_batch(recipe: Any, ranks: int) -> dict[str, Any]:
    """How a step's streams spread over the ranks."""
    per_pass = ranks * recipe.micro_batch_size
    warning = None
    if recipe.batch_size % per_pass:
        warning = (
            f"batch_size {recipe.batch_size} does not divide by {ranks} ranks x micro_batch_size "
            f"{recipe.micro_batch_size}: the trainer will refuse this launch"
        )
    return {
        "streams": recipe.batch_size,
        "tokens_per_gpu": recipe.max_context_tokens * recipe.micro_batch_size,
        "accumulation_steps": -(-recipe.batch_size // per_pass),
        "idle_ranks": max(0, ranks - recipe.batch_size // recipe.micro_batch_size),
        "warning": warning,
    }


def rl_batch(recipe: Any, ranks: int) -> dict[str, Any]:
    """Idle ranks, and the tokens that the shared trunk saves on a rank that works.

    A plain batch computes `G (P + c)` tokens a decision, the shared trunk `P + G c`, with P the
    prompt, G the group and c = 80 tokens of a typical completion. A group split over s ranks saves
    `G/s (P + c)` against `P + G/s c` on each.
    """
    decisions, group = recipe.decisions_per_step, recipe.num_generations
    completion = min(TYPICAL_COMPLETION_TOKENS, recipe.max_completion_length)
    prompt, split = recipe.max_context_tokens, max(1, ranks // decisions)

    def saving(size: float) -> float:
        return round(size * (prompt + completion) / (prompt + size * completion), 2)

    warning = None
    if decisions % ranks:
        warning = (
            f"{decisions} decisions a step do not divide by {ranks} ranks: launch "
            f"{decisions} ranks, or take {ranks} decisions (the recommended recipe)"
        )
    return {
        "decisions": decisions,
        "completions": decisions * group,
        "plain_tokens_per_decision": group * (prompt + completion),
        "trunk_tokens_per_decision": prompt + group * completion,
        "token_saving_per_rank": saving(group),
        "token_saving_if_split_over_idle_ranks": saving(group / split) if split > 1 else None,
        "idle_ranks": max(0, ranks - decisions),
        "warning": warning,
    }


def sft_memory(
    recipe: Any, dims: Dimensions, parameters: Parameters, zero_stage: int, ranks: int
) -> dict[str, Any]:
    """Memory of one GPU at full context: states, then the vision pass or one layer's backward."""
    b = 2 if recipe.dtype == "bfloat16" else 4
    tokens = recipe.max_context_tokens * recipe.micro_batch_size
    image_tokens = image_share(recipe, tokens)
    standing = forecast.state_parts(parameters, b, zero_stage, ranks)
    standing["reserve"] = forecast.RESERVE_BYTES if b == 2 else forecast.CPU_RESERVE_BYTES
    standing["vision_features"] = forecast.feature_bytes(dims, image_tokens, b)
    backward = forecast.activation_parts(
        dims, tokens, b, recipe.gradient_checkpointing, recipe.activation_offload
    )
    phases = {
        "vision_pass": {"vision_pass": forecast.vision_bytes(dims, image_tokens, b)},
        "backward": backward | {"fused_head": forecast.head_bytes(dims, tokens)},
    }
    return memory_report(standing, phases)


def rl_memory(
    recipe: Any, dims: Dimensions, parameters: Parameters, zero_stage: int, ranks: int
) -> dict[str, Any]:
    """Memory of one GPU: rollout (whole weights, KV cache of trunk and branches) or update.

    Under ZeRO-3 the weights are gathered whole while completions are sampled. The update's row is
    the trunk and every branch at its longest.
    """
    b = 2 if recipe.dtype == "bfloat16" else 4
    branches = recipe.num_generations * recipe.max_completion_length
    row = recipe.max_context_tokens + branches
    image_tokens = image_share(recipe, recipe.max_context_tokens)
    standing = forecast.state_parts(parameters, b, zero_stage, ranks)
    standing["reserve"] = forecast.RESERVE_BYTES if b == 2 else forecast.CPU_RESERVE_BYTES
    standing["vision_features"] = forecast.feature_bytes(dims, image_tokens, b)
    per_token = forecast.kv_bytes_per_token(dims, b)
    logits = 4 * dims.vocab * branches  # float32, of every branch token
    rollout = {
        "kv_cache_trunk": per_token * recipe.max_context_tokens,
        "kv_cache_branches": per_token * branches,
    }
    if zero_stage >= 3:
        rollout["whole_weights"] = parameters.total * b
    update = forecast.activation_parts(dims, row, b, recipe.gradient_checkpointing, False)
    phases = {
        "vision_pass": {"vision_pass": forecast.vision_bytes(dims, image_tokens, b)},
        "rollout": rollout,
        "update": update | {"branch_logits": 3 * logits},
    }
    return memory_report(standing, phases)


def image_share(recipe: Any, num_tokens: int) -> int:
    """Image tokens among the tokens of frames at their ceiling."""
    frame = recipe.max_pixels // TOKEN_SIDE_PX**2
    return num_tokens * frame // (frame + TEXT_TOKENS_PER_TURN)


def memory_report(standing: dict[str, int], phases: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Standing parts, phases and the peak, in bytes."""
    peak = forecast.peak_bytes(standing, phases)
    return {"standing": standing, "phases": phases, "peak": peak}


def refuse_excess(path: str, report: dict[str, Any]) -> None:
    """Raises RecipeError where the forecast peak exceeds the recipe's gpu_memory_gib."""
    memory = report.get("memory")
    if not memory or memory["peak"] <= memory["limit"]:
        return
    parts = dict(memory["standing"])
    for phase in memory["phases"].values():
        parts |= phase
    largest = max(parts, key=lambda name: parts[name])
    raise RecipeError(
        f"{path} gpu_memory_gib",
        f"a forecast of {memory['peak'] / GIB:.1f} GiB a GPU, most of it {largest} "
        f"({parts[largest] / GIB:.1f} GiB)",
        f"at most {memory['limit'] / GIB:.1f} GiB",
        "Lower max_context_tokens, turn on gradient_checkpointing or activation_offload, or launch "
        "more ranks.",
    )


def render(report: dict[str, Any]) -> str:
    """The report as text."""
    total, trainable, frames = report["parameters"], report["trainable"], report["frames"]
    lines = [
        f"stage {report['stage']}, dimensions of {report['model_config']}",
        f"parameters           {total / 1e9:.3f}B, of which vision "
        f"{report['vision_parameters'] / 1e9:.3f}B",
        f"trainable            {trainable / 1e6:,.1f}M ({100 * trainable / total:.1f} %)",
        f"tokens a frame       at most {frames['tokens_ceiling']} (max_pixels "
        f"{frames['max_pixels']:,}, one a 32 x 32 px)",
    ]
    if "tokens_measured" in frames:
        lines.append(
            f"                     {frames['tokens_measured']} in the data "
            f"({frames['frames_measured']} frames looked at)"
        )
    if "frames_in_context" in frames:
        lines.append(f"frames in context    {frames['frames_in_context']}")
    if "batch" in report:
        lines += render_batch(report["launch"], report["batch"])
    if "memory" in report:
        lines += render_memory(report["memory"])
    return "\n".join(lines)


def render_batch(launch: dict[str, Any], batch: dict[str, Any]) -> list[str]:
    lines = [f"ranks                {launch['ranks']}, ZeRO-{launch['zero_stage']}"]
    lines.append(f"idle ranks           {batch['idle_ranks']} of {launch['ranks']}")
    if "streams" in batch:
        lines.append(
            f"a step               {batch['streams']} streams, "
            f"{batch['tokens_per_gpu']:,} tokens a GPU, "
            f"{batch['accumulation_steps']} accumulation step(s)"
        )
    else:
        lines.append(
            f"a step               {batch['decisions']} decisions, "
            f"{batch['completions']} completions"
        )
        lines.append(
            f"token saving a rank  {batch['token_saving_per_rank']}x "
            f"({batch['plain_tokens_per_decision']:,} -> {batch['trunk_tokens_per_decision']:,} "
            f"tokens a decision)"
        )
        if split := batch["token_saving_if_split_over_idle_ranks"]:
            lines.append(f"                     {split}x if groups were split over idle ranks")
    return [*lines, f"WARNING              {batch['warning']}"] if batch["warning"] else lines


def render_memory(memory: dict[str, Any]) -> list[str]:
    lines = ["memory of one GPU, GiB"]
    lines += [f"  {name:<19}{size / GIB:8.2f}" for name, size in memory["standing"].items()]
    for phase, parts in memory["phases"].items():
        lines.append(f"  then {phase}: {sum(parts.values()) / GIB:.2f}")
        lines += [f"    {name:<17}{size / GIB:8.2f}" for name, size in parts.items()]
    lines.append(f"  peak               {memory['peak'] / GIB:8.2f} of {memory['limit'] / GIB:.1f}")
    return lines
