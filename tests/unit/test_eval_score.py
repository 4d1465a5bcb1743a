"""`proact score`: its output and what it says about bad prediction files."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from eval.protocols.egopro import score
from eval.score import format_table
from proact_train.cli import main
from proact_train.core.contracts import write_predictions, write_streams
from proact_train.core.types import Prediction

from .test_eval_egopro import event, intent, predict


@pytest.fixture
def files(tmp_path):
    streams = [event("e", "00110100"), intent("i", 10, (2, 3), (3, 6))]
    predictions = [predict(streams[0], "01100000"), predict(streams[1], "0010110010")]
    write_streams(tmp_path / "gold.jsonl", streams)
    write_predictions(tmp_path / "pred.jsonl", predictions)
    return tmp_path, streams, predictions


def run(folder, *options: str) -> int:
    gold, pred = str(folder / "gold.jsonl"), str(folder / "pred.jsonl")
    return main(["score", "egopro", "--gold", gold, "--pred", pred, *options])


def test_json_is_exactly_the_scores_object(files, capsys):
    folder, streams, predictions = files
    assert run(folder, "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == score(streams, predictions)
    assert captured.err == ""


def test_table_in_percent(files, capsys):
    folder, *_ = files
    assert run(folder) == 0
    out = capsys.readouterr().out
    assert "EgoPro-Object" in out
    assert "33.33" in out
    assert "cooking" in out
    assert "2 streams scored, 0 unscored" in out


def test_unscored_streams_are_told(files, capsys):
    folder, _, predictions = files
    write_predictions(folder / "pred.jsonl", predictions[:1])
    assert run(folder) == 0
    captured = capsys.readouterr()
    assert "unscored, no prediction: 1 (first 'i')" in captured.err
    assert "-" in captured.out


def test_table_of_nothing():
    assert format_table(score([], []), "model") == "no streams"


def broken(files, change) -> None:
    folder, _, predictions = files
    write_predictions(folder / "pred.jsonl", [change(predictions[0]), predictions[1]])


def shifted(prediction: Prediction, idx: int, t_s: float) -> Prediction:
    turns = list(prediction.turns)
    turns[idx] = replace(turns[idx], t_s=t_s)
    return replace(prediction, turns=tuple(turns))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda p: replace(p, stream_id="other"), "stream 'other'"),
        (lambda p: shifted(p, 3, 2.0), "turns[3]: found a second turn at 2.0 s"),
        (lambda p: shifted(p, 3, 1.0), "turns[3]: found a turn behind a later one at 1.0 s"),
        (lambda p: shifted(p, 7, 8.0), "turns[7]: found t_s 8.0, past the end"),
        (lambda p: shifted(p, 3, 3.002), "turns[3]: found t_s 3.002; expected a frame's time"),
        (lambda p: shifted(p, 0, -1.0), "turns[0]: found t_s -1.0"),
        (
            lambda p: replace(p, turns=(replace(p.turns[0], action="reply"), *p.turns[1:])),
            "action 'reply' in an event stream",
        ),
    ],
)
def test_bad_predictions_are_named(files, capsys, change, told):
    broken(files, change)
    assert run(files[0]) == 2
    err = capsys.readouterr().err
    assert "pred.jsonl:1" in err
    assert told in err


def test_within_a_millisecond_is_on_the_grid(files):
    broken(files, lambda p: shifted(p, 3, 3.0009))
    assert run(files[0]) == 0


@pytest.mark.parametrize("word", ["NaN", "Infinity"])
def test_nan_time_is_refused(files, capsys, word):
    folder, _, predictions = files
    value = asdict(predictions[0])
    value["turns"][2]["t_s"] = float(word.lower().replace("infinity", "inf"))
    (folder / "pred.jsonl").write_text(json.dumps(value) + "\n")
    assert run(folder) == 2
    assert "pred.jsonl:1" in capsys.readouterr().err


def test_duplicated_stream_is_refused(files, capsys):
    folder, _, predictions = files
    write_predictions(folder / "pred.jsonl", [predictions[0], predictions[0]])
    assert run(folder) == 2
    assert "pred.jsonl:2" in capsys.readouterr().err


def test_empty_predictions_score_nothing(files, capsys):
    folder, *_ = files
    (folder / "pred.jsonl").write_text("")
    assert run(folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["unscored"] == 2
