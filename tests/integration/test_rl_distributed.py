"""GSPO through `accelerate launch`: the same numbers on one process and two, a loadable adapter."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from proact_train.core.run_folder import COMPLETE, load_metrics, newest_complete_checkpoint
from proact_train.model.load import load_model
from tests.launching import ROOT, launch_stage
from tests.rl_data import build_inputs

RECIPE = ROOT / "recipes/rl/toy_cpu.yaml"
TOLERANCE = 1e-4
# A random model breaks the grammar; the paper's rule still gives it response points.
PAPER_REWARDS = (
    "rewards.exact_markers=false",
    "rewards.response_needs_format=false",
    "rewards.min_thought_tokens=0",
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build_inputs(tmp_path_factory.mktemp("rl"))


@pytest.fixture(scope="module")
def single(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("single") / "run"
    result = launch(inputs, run)
    assert result.returncode == 0, result.stderr[-3000:]
    return run


def launch(
    inputs: tuple[Path, Path],
    run: Path,
    *overrides: str,
    config: str | None = None,
    stage: str = "rl",
    **env: str,
) -> subprocess.CompletedProcess[str]:
    """Two steps of four decisions, or the other stage."""
    arguments = [f"model={inputs[0]}", f"output_dir={run}"]
    if stage == "rl":
        arguments += [f"train_decisions={inputs[1]}", f"held_out_decisions={inputs[1]}"]
        arguments += ["max_steps=2", "decisions_per_step=4", "num_generations=4", *PAPER_REWARDS]
        arguments += ["evaluation.num_decisions=3", "evaluation.num_generations=2", "beta=0.1"]
        arguments += ["max_completion_length=12", "learning_rate=1.0e-2"]
    return launch_stage(stage, [*arguments, *overrides], run.parent, config, **env)


def assert_same_steps(run: Path, other: Path) -> None:
    rows, others = load_metrics(run), load_metrics(other)
    assert [row["step"] for row in rows] == [row["step"] for row in others] == [1, 2]
    for row, expected in zip(rows, others, strict=True):
        for key in ("loss", "grad_norm", "kl", "entropy", "reward", "reward/response"):
            assert row[key] == pytest.approx(expected[key], rel=TOLERANCE, abs=1e-8), (
                row["step"],
                key,
            )


def test_a_step_learns_something(single: Path) -> None:
    rows = load_metrics(single)
    assert rows[0]["grad_norm"] > 0
    assert rows[0]["ratio"] == pytest.approx(1.0)
    assert rows[0]["kl"] == pytest.approx(0.0, abs=1e-9)
    assert rows[1]["kl"] > 0
    report = json.loads((single / "evaluation.json").read_text())
    assert report["paired"]["reward"]["n"] == 3
    table = [json.loads(line) for line in (single / "completions.jsonl").read_text().splitlines()]
    assert [row["step"] for row in table] == [1] * 16 + [2] * 16
    group = [row["advantage"] for row in table[:4]]
    assert sum(group) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("config", ["cpu_2procs.yaml", "cpu_zero2.yaml", "cpu_zero3.yaml"])
def test_two_processes_give_the_single_process_numbers(
    inputs: tuple[Path, Path], single: Path, tmp_path: Path, config: str
) -> None:
    """Samples are seeded by slot, so both launches make the same completions."""
    run = tmp_path / "run"
    result = launch(inputs, run, config=config)
    assert result.returncode == 0, result.stderr[-3000:]
    texts = [
        [json.loads(line)["completion"] for line in (folder / "completions.jsonl").open()]
        for folder in (run, single)
    ]
    assert texts[0] == texts[1]
    assert_same_steps(run, single)
    adapters = [load_file(f / "model" / "adapter_model.safetensors") for f in (run, single)]
    assert adapters[0].keys() == adapters[1].keys()
    for name, value in adapters[0].items():
        assert value.numel()
        assert value.shape == adapters[1][name].shape
    load_model(run / "model")
    reports = [json.loads((f / "evaluation.json").read_text()) for f in (run, single)]
    for side in ("before", "after"):
        assert reports[0]["paired"]["reward"][side] == pytest.approx(
            reports[1]["paired"]["reward"][side], rel=TOLERANCE
        )


def test_a_stopped_run_resumes_bit_by_bit(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert launch(inputs, whole, "max_steps=3").returncode == 0
    stop_file = tmp_path / "stop"
    stop_file.touch()
    result = launch(inputs, stopped, "max_steps=3", PROACT_STOP_FILE=str(stop_file))
    assert result.returncode == 85, result.stderr[-3000:]
    checkpoint = newest_complete_checkpoint(stopped)
    assert checkpoint is not None
    assert checkpoint.name == "checkpoint-1"
    stop_file.unlink()
    result = launch(inputs, stopped, "max_steps=3")
    assert result.returncode == 0, result.stderr[-3000:]
    assert load_metrics(stopped) == load_metrics(whole)
    tables = [(run / "completions.jsonl").read_text() for run in (stopped, whole)]
    assert tables[0] == tables[1]
    adapters = [load_file(r / "model" / "adapter_model.safetensors") for r in (stopped, whole)]
    for name, value in adapters[0].items():
        assert torch.equal(value, adapters[1][name])
    assert (stopped / "model" / COMPLETE).is_file()


def test_rl_starts_from_the_run_folder_of_a_zero3_sft_run(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    sft = tmp_path / "sft"
    samples = [f"train_samples={inputs[0].parent / 'train.jsonl'}", "max_steps=2", "batch_size=2"]
    result = launch(
        inputs,
        sft,
        *samples,
        "micro_batch_size=1",
        "warmup_ratio=0.0",
        config="cpu_zero3.yaml",
        stage="sft",
    )
    assert result.returncode == 0, result.stderr[-3000:]
    shutil.rmtree(tmp_path / "rl", ignore_errors=True)
    result = launch((sft, inputs[1]), tmp_path / "rl", config="cpu_zero3.yaml")
    assert result.returncode == 0, result.stderr[-3000:]
    adapter = json.loads((tmp_path / "rl" / "model" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == str(sft / "model")
    load_model(tmp_path / "rl" / "model")


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["num_generations=1"], "greater than or equal to 2"),
        (
            ["max_context_tokens=60", "max_completion_length=12", "learning_rate=1.0e-2"],
            "nothing is truncated",
        ),
        (["model=nowhere"], "no model"),
    ],
)
def test_a_users_mistake_is_told_without_a_traceback(
    inputs: tuple[Path, Path], tmp_path: Path, overrides: list[str], told: str
) -> None:
    result = launch(inputs, tmp_path / "run", *overrides)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert told in result.stderr
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
