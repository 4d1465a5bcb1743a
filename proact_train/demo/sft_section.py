"""The report's curves of stage 1: loss and token accuracy by class."""

from __future__ import annotations

from typing import Any

from ..core.run_folder import METRICS, load_metrics
from ..page.curves import Chart, render_chart
from ..page.prose import render_grid, render_missing, render_paragraph
from ..page.render import Section
from ..page.table import count
from ..sft.recipe import SftRecipe
from .folder import DemoFolder
from .reading import count_lines, load_run_recipe, metric_series

_TITLE = "Stage 1: SFT on short thoughts"
_CLASSES = ("thought", "silence", "alert", "reply")


def build_sft_section(folder: DemoFolder) -> Section:
    """Loss and accuracies over steps, from the run folder of stage 1."""
    rows = load_metrics(folder.sft_run)
    if not rows:
        missing = render_missing("Curves of stage 1", folder.shown(folder.sft_run / METRICS))
        return Section(_TITLE, "", (missing,))
    loss = metric_series(rows, "loss", "loss")
    accuracies = [metric_series(rows, f"accuracy_{name}", name) for name in _CLASSES]
    charts = [
        Chart(
            "Loss",
            (loss,) if loss else (),
            "optimiser step",
            "weighted mean −log p of the answers' tokens",
        ),
        Chart(
            "Token accuracy by class",
            tuple(series for series in accuracies if series),
            "optimiser step",
            "share of tokens that are the most likely one",
            y_low=0.0,
            y_high=1.0,
        ),
    ]
    parts = (render_grid([render_chart(chart) for chart in charts]),)
    return Section(_TITLE, _describe(folder, rows), (*parts, render_paragraph(_counts(rows))))


def _describe(folder: DemoFolder, rows: list[dict[str, Any]]) -> str:
    num_samples = count_lines(folder.sft_samples)
    samples = "" if num_samples is None else f" on {count(num_samples, 'stream')}"
    text = f"{count(rows[-1]['step'], 'optimiser step')}{samples}; every answer is learned."
    recipe = load_run_recipe(folder.sft_run, SftRecipe)
    if recipe is None:
        return text
    return (
        f"{text} {count(recipe.num_train_epochs, 'epoch')}, {recipe.batch_size} streams a step, "
        f"learning rate {recipe.learning_rate:g} to {recipe.min_lr:g}, seed {recipe.seed}."
    )


def _counts(rows: list[dict[str, Any]]) -> str:
    """What one point of the curves is a mean of, from the last log."""
    last = rows[-1]
    since = rows[-2]["step"] if len(rows) > 1 else 0
    text = (
        "Each point is a mean over the steps since the point before it. "
        f"The last of {count(len(rows), 'point')} covers steps {since + 1} to {last['step']}"
    )
    if "num_completions" in last:
        by_class = [
            f"{name} {last[f'num_{name}']:,.0f}" for name in _CLASSES if f"num_{name}" in last
        ]
        text += f": {last['num_completions']:,.0f} answers ({', '.join(by_class)})"
    return text + "."
