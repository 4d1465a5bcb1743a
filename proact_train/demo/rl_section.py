"""The report's view of stage 2: rewards over steps, the paired measurement, sampled answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proact_train.core.run_folder import METRICS, load_metrics
from proact_train.page.curves import Chart, render_chart
from proact_train.page.prose import render_grid, render_heading, render_missing
from proact_train.page.render import Section
from proact_train.page.table import count
from proact_train.rl.recipe import RlRecipe

from .completions_table import build_completions_part
from .folder import DemoFolder
from .paired_tables import build_paired_parts
from .reading import count_lines, load_run_recipe, metric_series

_TITLE = "Stage 2: GSPO"
_PARTS = ("format", "length", "history", "semantic", "response", "content")
_CLASSES = ("silence", "alert", "reply")


def build_rl_section(folder: DemoFolder) -> Section:
    """Curves of training, then the held-out decisions before and after, then answers."""
    rows = load_metrics(folder.rl_run)
    if rows:
        charts = [render_chart(chart) for chart in build_charts(rows)]
        curves = (render_grid(charts),)
        intro = _describe(folder, rows)
    else:
        curves = (render_missing("Curves of stage 2", folder.shown(folder.rl_run / METRICS)),)
        intro = ""
    parts = (
        *curves,
        render_heading("Held-out decisions before and after"),
        *build_paired_parts(folder),
        render_heading("Sampled answers"),
        build_completions_part(folder),
    )
    return Section(_TITLE, intro, parts)


def build_charts(rows: list[dict[str, Any]]) -> list[Chart]:
    """Reward, rewards by name, right actions, entropy, KL, shares of idle and broken rows."""
    step = "optimiser step"
    shares = {
        "completions/invalid": "invalid",
        "completions/truncated": "truncated",
        "groups/zero_variance": "groups without contrast",
        "rows/unscored": "unscored",
    }
    return [
        _chart(rows, "Reward", {"reward": "total reward"}, step, "mean over the step's answers"),
        _chart(
            rows,
            "Rewards by name",
            {f"reward/{name}": name for name in _PARTS},
            step,
            "mean before weights; content is a part of response",
            y_low=0.0,
        ),
        _chart(
            rows,
            "Right action by gold answer",
            {f"class/{name}/accuracy": name for name in _CLASSES},
            step,
            "share of sampled answers",
            y_low=0.0,
            y_high=1.0,
        ),
        _chart(
            rows,
            "Answers without use",
            shares,
            step,
            "share of answers, of groups",
            y_low=0.0,
        ),
        _chart(rows, "Entropy", {"entropy": "entropy"}, step, "nats a token", y_low=0.0),
        _chart(
            rows,
            "KL to the model before GSPO",
            {"kl": "KL"},
            step,
            "mean k3 estimate a token",
            y_low=0.0,
        ),
    ]


def _chart(
    rows: list[dict[str, Any]],
    title: str,
    names: dict[str, str],
    x_label: str,
    y_label: str,
    y_low: float | None = None,
    y_high: float | None = None,
) -> Chart:
    series = [metric_series(rows, key, name) for key, name in names.items()]
    known = tuple(line for line in series if line)
    return Chart(title, known, x_label, y_label, y_low=y_low, y_high=y_high)


def _describe(folder: DemoFolder, rows: Sequence[dict[str, Any]]) -> str:
    num_decisions = count_lines(folder.train_decisions)
    decisions = "" if num_decisions is None else f" on {count(num_decisions, 'decision')}"
    text = f"{count(rows[-1]['step'], 'optimiser step')}{decisions}."
    recipe = load_run_recipe(folder.rl_run, RlRecipe)
    if recipe is None:
        return text
    num_rows = recipe.decisions_per_step * recipe.num_generations
    return (
        f"{text} Each step samples {recipe.num_generations} answers for each of "
        f"{count(recipe.decisions_per_step, 'decision')}, so a point is a mean of {num_rows} "
        f"answers. LoRA rank {recipe.lora.r}, learning rate {recipe.learning_rate:g}, KL weight "
        f"{recipe.beta:g}, temperature {recipe.temperature:g}, seed {recipe.seed}."
    )
