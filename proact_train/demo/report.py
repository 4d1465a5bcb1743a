"""One page on a whole demo, made of the files that it left; what is missing is said to be missing.

Each section has its own module; here are the heading, the times and the commands.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from ..core.jsonl import atomic_write
from ..page.prose import render_commands, render_missing, render_paragraph
from ..page.render import Section, render_page
from ..page.table import Bar, Cell, Row, Table, render_table
from ..rl.recipe import RlRecipe
from ..sft.recipe import SftRecipe
from .folder import DemoFolder
from .reading import count_lines, load_object, load_run_recipe
from .rl_section import build_rl_section
from .score_section import build_score_section
from .sft_section import build_sft_section
from .timeline_section import build_timeline_section

_TITLE = "ProAct-Stream: a demo run"
_INTRO = (
    "A tiny Qwen3-VL with random weights learns to watch a rendered first-person video, one frame "
    "a second, and to decide at every frame whether to stay silent, raise an alert or say "
    "something useful to this user. This page shows one run of all stages, from the rendered "
    "videos to the scores on held-out streams; everything on it was read from that run's files."
)


def write_report(folder: DemoFolder, stage_seconds: Mapping[str, float], machine: str) -> Path:
    """Writes ROOT/report.html atomically and returns its path.

    Args:
        stage_seconds: how long each stage took, in the order they ran.
        machine: what it ran on, in words.

    Raises:
        DataError: a file of the folder breaks its contract; a missing file is no error.
    """
    sections = [
        build_score_section(folder),
        build_timeline_section(folder),
        build_sft_section(folder),
        build_rl_section(folder),
        build_time_section(stage_seconds),
        build_command_section(folder),
    ]
    page = render_page(_TITLE, _INTRO, sections, build_facts(folder, stage_seconds, machine))
    with atomic_write(folder.report) as file:
        file.write(page)
    return folder.report


def build_facts(
    folder: DemoFolder, stage_seconds: Mapping[str, float], machine: str
) -> list[tuple[str, str]]:
    """Machine, total time, sizes of the splits and seeds."""
    splits = {
        "train": folder.train_streams,
        "GSPO": folder.rl_streams,
        "held out": folder.test_streams,
    }
    sizes = {name: count_lines(path) for name, path in splits.items()}
    shown = [f"{name} {'missing' if size is None else size}" for name, size in sizes.items()]
    return [
        ("Machine", machine),
        ("Total time", format_duration(sum(stage_seconds.values()))),
        ("Streams", ", ".join(shown)),
        ("Seeds", _seeds(folder)),
    ]


def build_time_section(stage_seconds: Mapping[str, float]) -> Section:
    """How long each stage took, with its share of the whole."""
    title = "How long it took"
    if not stage_seconds:
        return Section(title, "", (render_paragraph("No stage was timed."),))
    total_s = sum(stage_seconds.values())
    rows = [
        Row(
            name,
            (
                Cell(format_duration(seconds)),
                Cell(f"{100 * seconds / total_s:.0f} %", "", Bar(seconds / total_s))
                if total_s
                else Cell("–"),
            ),
        )
        for name, seconds in stage_seconds.items()
    ]
    rows.append(Row("all stages", (Cell(format_duration(total_s)), Cell("")), is_aside=True))
    table = Table("Wall-clock time of each stage, n = 1 run.", ("", "time", "share"), tuple(rows))
    return Section(title, "", (render_table(table),))


def build_command_section(folder: DemoFolder) -> Section:
    """The stages by hand, over this run's own folder and recipes."""
    root, seed = shlex.quote(str(folder.root)), folder.rl_seeds()[0]
    launch = "OMP_NUM_THREADS=1 accelerate launch --config_file recipes/accelerate/cpu_2procs.yaml"
    lines = [
        f"DEMO={root} NEW=runs/again",
        f"{launch} \\\n    -m proact_train.sft $DEMO/sft/recipe.yaml output_dir=$NEW/sft",
        f"{launch} \\\n    -m proact_train.rl $DEMO/rl/seed_{seed}/recipe.yaml model=$NEW/sft "
        "output_dir=$NEW/rl",
        "proact predict --streams $DEMO/data/test.jsonl --model $NEW/sft/model "
        "--adapter $NEW/rl/model \\\n    --recipe recipes/eval/toy_cpu.yaml --out $NEW/rl.jsonl",
        "proact score egopro --gold $DEMO/data/test.jsonl --pred $NEW/rl.jsonl",
    ]
    intro = (
        "Run from the checkout. The recipes in the run folders hold every value of this run in "
        "full, so the two training commands repeat its stages."
    )
    parts: list[str] = [render_commands(lines)]
    for name, run in (("stage 1", folder.sft_run), ("stage 2", folder.rl_run(seed))):
        if not (run / "recipe.yaml").is_file():
            parts.append(render_missing(f"The recipe of {name}", folder.shown(run / "recipe.yaml")))
    return Section("The same by hand", intro, tuple(parts))


def format_duration(seconds: float) -> str:
    """`48.3 s`, `3 min 20 s`, `1 h 5 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _seeds(folder: DemoFolder) -> str:
    """Seeds as the runs' recipes and the held-out measurement name them."""
    sft = load_run_recipe(folder.sft_run, SftRecipe)
    runs = [load_run_recipe(folder.rl_run(seed), RlRecipe) for seed in folder.rl_seeds()]
    settings = load_object(folder.settings) or {}
    seeds = {
        "world": [settings.get("seed")],
        "SFT": [sft and sft.seed],
        "GSPO": [run and run.seed for run in runs],
    }
    return ", ".join(
        f"{name} {' '.join('missing' if seed is None else str(seed) for seed in values)}"
        for name, values in seeds.items()
    )
