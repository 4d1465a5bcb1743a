"""The report's view of stage 2: rewards over steps, the paired measurement, sampled answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.run_folder import METRICS, load_metrics
from ..page.curves import Chart, render_chart
from ..page.prose import render_grid, render_heading, render_missing
from ..page.render import Section
from ..page.table import count
from ..rl.recipe import RlRecipe
from .completions_table import build_completions_part
from .folder import DemoFolder
from .paired_tables import build_paired_parts
from .reading import count_lines, load_run_recipe, metric_series

_TITLE = "Stage 2: GSPO"
_STEP = "optimiser step"
_NAMES = ("format", "length", "history", "semantic", "response", "content")
_PARTS = {f"reward/{name}": name for name in _NAMES}
_RIGHT = {f"class/{name}/accuracy": name for name in ("silence", "alert", "reply")}
_WITHOUT_USE = {
    "completions/invalid": "invalid",
    "completions/truncated": "truncated",
    "groups/zero_variance": "groups without contrast",
    "rows/unscored": "unscored",
}
Rows = list[dict[str, Any]]


def build_rl_section(folder: DemoFolder) -> Section:
    """Curves of training, then the held-out decisions before and after, then answers."""
    seeds = folder.rl_seeds()
    logs = {seed: load_metrics(folder.rl_run(seed)) for seed in seeds}
    first = seeds[0]
    parts: list[str] = []
    for seed in seeds:
        if not logs[seed]:
            path = folder.rl_run(seed) / METRICS
            parts.append(render_missing("Curves of stage 2", folder.shown(path)))
    known = {seed: rows for seed, rows in logs.items() if rows}
    if known:
        parts.append(render_grid([render_chart(chart) for chart in build_charts(known)]))
    parts.append(render_heading("Held-out decisions before and after"))
    for seed in seeds:
        parts += build_paired_parts(folder, seed)
    parts.append(render_heading("Sampled answers"))
    parts.append(build_completions_part(folder, first))
    intro = _describe(folder, next(iter(known)), known) if known else ""
    return Section(_TITLE, intro, tuple(parts))


def build_charts(logs: Mapping[int, Rows]) -> list[Chart]:
    """Reward of every run; rewards by name, right actions, entropy and KL of the first.

    Args:
        logs: seed -> metrics of its run, at least one.
    """
    first = next(iter(logs))
    rows = logs[first]
    note = f"The run with seed {first}." if len(logs) > 1 else ""
    charts = [
        _chart(rows, "Rewards by name", _PARTS, "mean before weights; content is in response", 0.0),
        _chart(rows, "Right action by gold answer", _RIGHT, "share of sampled answers", 0.0, 1.0),
        _chart(rows, "Answers without use", _WITHOUT_USE, "share of answers, of groups", 0.0),
        _chart(rows, "Entropy", {"entropy": "entropy"}, "nats a token", 0.0),
        _chart(rows, "KL to the model before GSPO", {"kl": "KL"}, "mean k3 estimate", 0.0),
    ]
    return [_reward_chart(logs), *(replace(chart, note=note) for chart in charts)]


def _reward_chart(logs: Mapping[int, Rows]) -> Chart:
    series = [
        metric_series(rows, "reward", f"seed {seed}" if len(logs) > 1 else "reward")
        for seed, rows in logs.items()
    ]
    known = tuple(line for line in series if line)
    return Chart("Reward (sum)", known, _STEP, "mean over the step's answers")


def _chart(
    rows: Rows,
    title: str,
    names: Mapping[str, str],
    y_label: str,
    y_low: float | None = None,
    y_high: float | None = None,
) -> Chart:
    """A chart of some metrics of one run.

    Args:
        names: key of the metric -> name of its series.
    """
    series = [metric_series(rows, key, name) for key, name in names.items()]
    known = tuple(line for line in series if line)
    return Chart(title, known, _STEP, y_label, y_low=y_low, y_high=y_high)


def _describe(folder: DemoFolder, seed: int, logs: Mapping[int, Rows]) -> str:
    num_decisions = count_lines(folder.train_decisions)
    decisions = "" if num_decisions is None else f" on {count(num_decisions, 'decision')}"
    runs = f"{count(len(logs), 'run')} of " if len(logs) > 1 else ""
    text = f"{runs}{count(logs[seed][-1]['step'], 'optimiser step')}{decisions}."
    recipe = load_run_recipe(folder.rl_run(seed), RlRecipe)
    if recipe is None:
        return text
    num_rows = recipe.decisions_per_step * recipe.num_generations
    return (
        f"{text} Each step samples {recipe.num_generations} answers for each of "
        f"{count(recipe.decisions_per_step, 'decision')}, so a point is a mean of {num_rows} "
        f"answers. LoRA rank {recipe.lora.r}, learning rate {recipe.learning_rate:g}, KL weight "
        f"{recipe.beta:g}, temperature {recipe.temperature:g}."
    )
