"""A run folder: only complete checkpoints count, torn lines are dropped."""

from pathlib import Path

import pytest

from proact_train.core.errors import RunError
from proact_train.core.run_folder import (
    append_metrics,
    load_metrics,
    mark_complete,
    model_folder,
    newest_complete_checkpoint,
)


def test_the_newest_complete_checkpoint_is_by_step_and_not_by_name(tmp_path: Path):
    assert newest_complete_checkpoint(tmp_path) is None
    for step in (9, 10, 11):
        (tmp_path / f"checkpoint-{step}").mkdir()
    for step in (9, 10):
        mark_complete(tmp_path / f"checkpoint-{step}")
    newest = newest_complete_checkpoint(tmp_path)
    assert newest is not None
    assert newest.name == "checkpoint-10"


def test_metrics_survive_a_torn_last_line(tmp_path: Path):
    assert load_metrics(tmp_path) == []
    for step in (1, 2, 3):
        append_metrics(tmp_path, {"step": step, "loss": step / 2})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    assert [row["step"] for row in load_metrics(tmp_path)] == [1, 2, 3]
    assert [row["step"] for row in load_metrics(tmp_path, up_to_step=2)] == [1, 2]


def test_the_model_of_a_run_folder_or_a_model_folder(tmp_path: Path):
    with pytest.raises(RunError, match="no model"):
        model_folder(tmp_path)
    (tmp_path / "config.json").touch()
    assert model_folder(tmp_path) == tmp_path
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "adapter_config.json").touch()
    assert model_folder(tmp_path) == tmp_path / "model"
