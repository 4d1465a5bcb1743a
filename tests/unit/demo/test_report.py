"""The report of a demo: every section from files, what is missing said to be missing."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from proact_train.core.errors import DataError
from proact_train.core.jsonl import write_json
from proact_train.demo.folder import DemoFolder
from proact_train.demo.report import format_duration, write_report
from tests.demo_folder import HOSTILE, build_demo_folder

SECONDS = {"data": 30.0, "SFT": 90.0}


@pytest.fixture
def folder(tmp_path):
    return build_demo_folder(tmp_path / "demo")


def page_of(folder: DemoFolder) -> str:
    return write_report(folder, SECONDS, "2 cores <b>").read_text(encoding="utf-8")


def test_a_whole_folder_gives_a_whole_page(folder):
    page = page_of(folder)
    assert "is missing" not in page
    assert "2 cores &lt;b&gt;" in page
    assert "2 min 0 s" in page
    assert "train 3, GSPO 3, held out 3" in page
    assert "world 3, SFT 42, GSPO 0" in page
    for name in (
        "untrained",
        "after SFT",
        "after GSPO",
        "another query or memory",
        "another video",
    ):
        assert name in page
    for title in (
        "Loss",
        "Token accuracy by class",
        "Rewards by name",
        "Entropy",
        "KL to the model",
    ):
        assert title in page
    assert page.count('<table class="strip">') == 3
    assert page.count("data:image/jpeg") == 18
    assert not [path for path in folder.root.iterdir() if path.suffix == ".tmp"]


def test_scores_are_those_of_the_files(folder):
    scores = json.loads(folder.scores("sft").read_text(encoding="utf-8"))
    scores["groups"]["object"]["f1"] = 0.4321
    scores["groups"]["intent"]["f1"] = None
    write_json(folder.scores("sft"), scores)
    page = page_of(folder)
    assert "43.2" in page
    assert "not scored" in page


def test_model_text_is_never_markup(folder):
    page = page_of(folder)
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page


def test_the_paired_measurement_stands_with_its_errors(folder):
    page = page_of(folder)
    assert "+0.5000" in page
    assert "−0.0500" in page
    assert "0.0700" in page
    assert "96 held-out decisions of 30 streams, 8 answers each" in page


def test_an_empty_folder_says_what_is_missing(tmp_path):
    folder = DemoFolder(tmp_path)
    page = write_report(folder, {}, "a laptop").read_text(encoding="utf-8")
    for path in (
        "scores/untrained.json",
        "scores/swapped_frames.json",
        "data/test.jsonl",
        "sft/metrics.jsonl",
        "rl/seed_0/metrics.jsonl",
        "rl/seed_0/evaluation.json",
        "rl/seed_0/completions.jsonl",
        "rl/seed_0/recipe.yaml",
    ):
        assert f"because {path} is missing" in page
    assert "train missing, GSPO missing, held out missing" in page
    assert "No stage was timed." in page
    assert not re.search(r">\d+\.\d<", page), "no number is invented"


def test_a_stage_without_predictions_is_left_out_by_name(folder):
    folder.predictions("rl_seed_0").unlink()
    page = page_of(folder)
    assert "Answers after GSPO: not shown, because predictions/rl_seed_0.jsonl is missing." in page
    assert page.count('<table class="strip">') == 3


def test_frames_that_are_missing_leave_their_places(folder):
    shutil.rmtree(folder.frames)
    page = page_of(folder)
    assert page.count("no picture") == 18
    assert "data:image/jpeg" not in page


def test_a_baseline_is_shown_where_it_was_scored(folder):
    assert "baseline: always speak" not in page_of(folder)
    shutil.copy(folder.scores("rl_seed_0"), folder.scores("always_speak"))
    page = page_of(folder)
    assert "baseline: always speak" in page


def test_several_gspo_runs_stand_side_by_side(tmp_path):
    folder = build_demo_folder(tmp_path, rl_seeds=(0, 2))
    page = page_of(folder)
    assert "GSPO 0 2" in page
    for seed in (0, 2):
        assert f"after GSPO, seed {seed}" in page
        assert f"GSPO with seed {seed}: 96 held-out decisions" in page
        assert f"<span>seed {seed}</span>" in page
    assert "The run with seed 0." in page
    assert page.count('<tr class="lane">') == 3 * 3, "timelines show one GSPO run"


def test_a_broken_file_is_named(folder):
    folder.scores("rl_seed_0").write_text("[1]", encoding="utf-8")
    with pytest.raises(DataError, match=r"rl_seed_0\.json"):
        page_of(folder)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (48.34, "48.3 s"),
        (59.99, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3900, "1 h 5 min"),
    ],
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text
