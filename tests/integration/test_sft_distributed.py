"""SFT through `accelerate launch`: the same numbers on one process and two, loadable weights."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch

from proact_train.core.run_folder import COMPLETE, load_metrics, newest_complete_checkpoint
from proact_train.model.load import load_model, load_processor
from tests.launching import ROOT, launch_stage
from tests.sft_data import SIDE_PX, build_inputs

RECIPE = ROOT / "recipes/sft/toy_cpu.yaml"
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build_inputs(tmp_path_factory.mktemp("sft"))


@pytest.fixture(scope="module")
def single(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps on one process, the whole batch in one forward pass."""
    run = tmp_path_factory.mktemp("single") / "run"
    assert launch(inputs, run, "micro_batch_size=4").returncode == 0
    return run


def launch(
    inputs: tuple[Path, Path], run: Path, *overrides: str, config: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Two steps with a global batch of four."""
    values = {"model": inputs[0], "train_samples": inputs[1], "output_dir": run}
    arguments = [f"{key}={value}" for key, value in values.items()]
    arguments += ["max_steps=2", "batch_size=4", "logging_steps=1", "warmup_ratio=0.0", *overrides]
    return launch_stage("sft", arguments, run.parent, config, **env)


def assert_same_steps(run: Path, other: Path) -> None:
    rows, others = load_metrics(run), load_metrics(other)
    assert [row["step"] for row in rows] == [row["step"] for row in others] == [1, 2]
    for row, expected in zip(rows, others, strict=True):
        for key in ("loss", "grad_norm", "num_completions", "num_silence", "num_tokens"):
            assert row[key] == pytest.approx(expected[key], rel=TOLERANCE), (row["step"], key)


@pytest.mark.parametrize("config", ["cpu_2procs.yaml", "cpu_zero2.yaml", "cpu_zero3.yaml"])
@pytest.mark.parametrize("micro_batch_size", [2, 1])
def test_two_processes_give_the_single_process_numbers(
    inputs: tuple[Path, Path], single: Path, tmp_path: Path, config: str, micro_batch_size: int
) -> None:
    """Lengths and weights differ by sample; micro_batch_size 1 adds gradient accumulation."""
    run = tmp_path / "run"
    result = launch(inputs, run, f"micro_batch_size={micro_batch_size}", config=config)
    assert result.returncode == 0, result.stderr[-3000:]
    assert f"2 process(es) x {2 // micro_batch_size} accumulation" in result.stdout
    assert_same_steps(run, single)
    trained, expected = load_model(run / "model"), load_model(single / "model")
    for (name, value), other in zip(trained.named_parameters(), expected.parameters(), strict=True):
        assert value.numel()
        assert value.shape == other.shape, name
    load_processor(run / "model", SIDE_PX**2)


def test_accumulation_on_one_process_changes_nothing(
    inputs: tuple[Path, Path], single: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert launch(inputs, run, "micro_batch_size=1").returncode == 0
    assert_same_steps(run, single)


def test_a_stopped_run_resumes_bit_by_bit(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    overrides = ("max_steps=4", "micro_batch_size=2")
    assert launch(inputs, whole, *overrides).returncode == 0
    stop_file = tmp_path / "stop"
    stop_file.touch()
    result = launch(inputs, stopped, *overrides, PROACT_STOP_FILE=str(stop_file))
    assert result.returncode == 85, result.stderr[-3000:]
    checkpoint = newest_complete_checkpoint(stopped)
    assert checkpoint is not None
    assert checkpoint.name == "checkpoint-1"
    assert not (stopped / "model").exists()
    stop_file.unlink()
    assert launch(inputs, stopped, *overrides).returncode == 0
    timings = ("step_s",)
    for row, other in zip(load_metrics(stopped), load_metrics(whole), strict=True):
        assert {k: v for k, v in row.items() if k not in timings} == {
            k: v for k, v in other.items() if k not in timings
        }
    resumed, straight = load_model(stopped / "model"), load_model(whole / "model")
    for value, other in zip(resumed.parameters(), straight.parameters(), strict=True):
        assert torch.equal(value, other)
    assert (stopped / "model" / COMPLETE).is_file()


def test_a_users_mistake_is_told_once_without_a_traceback(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    result = launch(inputs, tmp_path / "run", "max_context_tokens=60", "micro_batch_size=4")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "stream 's1'" in result.stderr
    assert "nothing is truncated" in result.stderr
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    assert json.loads(inputs[1].read_text().splitlines()[1])["stream_id"] == "s1"
