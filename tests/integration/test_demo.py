"""The whole demo at a tenth of its size, as a user starts it; it learns little, but runs all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proact_train.core.run_folder import load_metrics
from proact_train.demo.folder import DemoFolder

pytestmark = pytest.mark.timeout(900)
COMMAND = (sys.executable, "-m", "proact_train.cli", "demo", "--scale", "0.1", "--out")


def run_demo(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, str(out), *options], capture_output=True, text=True)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    done = run_demo(out)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert f"Open {out / 'report.html'}" in done.stdout
    assert "Warning" not in done.stderr
    return out


def test_every_stage_has_run_and_the_report_shows_its_numbers(demo: Path):
    folder = DemoFolder(demo)
    losses = [row["loss"] for row in load_metrics(folder.sft_run)]
    assert losses[-1] < losses[0]
    page = folder.report.read_text(encoding="utf-8")
    for name in ("untrained", "sft", "rl_seed_0", "swapped_told", "swapped_frames"):
        scores = json.loads(folder.scores(name).read_text(encoding="utf-8"))
        assert scores["n"] == 24
        assert scores["unscored"] == 0
        assert f"{100 * scores['groups']['object']['f1']:.1f}" in page
    assert 0.3 < json.loads(folder.memory.read_text(encoding="utf-8"))["peak_gib"] < 6


def test_the_same_line_again_repeats_nothing(demo: Path):
    folder = DemoFolder(demo)
    before = folder.seconds.read_bytes()
    done = run_demo(demo)
    assert done.returncode == 0
    assert done.stdout.count("finished before") == done.stdout.count("\n[")
    assert folder.seconds.read_bytes() == before


def test_a_folder_that_another_seed_began_is_refused(demo: Path):
    done = run_demo(demo, "--seed", "1")
    assert done.returncode == 2
    assert "Give the same --seed and --scale, or another --out." in done.stderr
