"""Predicting: batches, one stream's failure, resume, refusals, no gold and no look-ahead."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from PIL import Image

from eval.models.constant import SENTENCE, ConstantModel
from eval.partial import PartialFile, told_digest, weights_fingerprint
from eval.predict import batches_of, predict
from eval.protocols.egopro import score
from eval.recipe import EvalRecipe
from eval.watch import StreamFailure, watch_streams
from proact_train.cli import main
from proact_train.core.contracts import load_predictions, write_streams
from proact_train.core.errors import DataError, RunError, VideoError
from proact_train.core.recipe import load_recipe
from proact_train.core.types import Prediction, Stream

from .test_eval_egopro import event, intent

RECIPE = EvalRecipe(batch_size=2)


def frames_of(stream: Stream) -> Iterator[Image.Image]:
    for idx in range(stream.num_frames):
        if stream.id == "broken" and idx == 1:
            raise VideoError("broken.mp4", "a hole", "a frame", "Mend it.")
        yield Image.new("L", (4, 4), idx)


class Looking:
    """Answers with the brightness of the frame it was given."""

    name, needs_frames = "looking", True

    def __init__(self, breaks_on: str = ""):
        self.breaks_on, self.seen = breaks_on, list[Stream]()

    def open(self, streams: Sequence[Stream]) -> Looking:
        self.streams = streams
        self.seen += streams
        return self

    def step(self, active: Sequence[int], images: Sequence[Image.Image]) -> list[str]:
        if any(self.streams[idx].id == self.breaks_on for idx in active):
            raise RuntimeError("out of memory")
        return [
            f"<think>{self.streams[idx].id} {image.getpixel((0, 0))}</think><Silence>"
            for idx, image in zip(active, images, strict=True)
        ]


def thoughts(prediction: Prediction) -> list[str | None]:
    return [turn.thought for turn in prediction.turns]


def test_every_stream_gets_its_own_frames_in_order():
    streams = [event("a", "010"), event("b", "1"), intent("c", 2, (0, 1))]
    results = list(watch_streams(Looking(), streams, True, frames_of))
    found = {result.stream_id: thoughts(result) for result in results}
    assert found == {"a": ["a 0", "a 1", "a 2"], "b": ["b 0"], "c": ["c 0", "c 1"]}
    by_id = {result.stream_id: result for result in results}
    assert [turn.t_s for turn in by_id["a"].turns] == [0.0, 1.0, 2.0]
    assert by_id["c"].prompt == "proact.prompt/1 intent"
    assert all(turn.latency_s >= 0 for turn in by_id["a"].turns)


def test_a_model_never_sees_gold():
    model = Looking()
    list(watch_streams(model, [replace(event("a", "01"), thoughts={0: "gold"})], True, frames_of))
    assert (model.seen[0].intervals, model.seen[0].thoughts) == ((), None)


def test_one_broken_video_leaves_the_others_alone():
    streams = [event("a", "010"), event("broken", "010"), event("c", "010")]
    results = list(watch_streams(Looking(), streams, True, frames_of))
    failures = [result for result in results if isinstance(result, StreamFailure)]
    assert [failure.stream_id for failure in failures] == ["broken"]
    assert "a hole" in failures[0].reason
    whole = {r.stream_id: thoughts(r) for r in results if not isinstance(r, StreamFailure)}
    assert whole == {"a": ["a 0", "a 1", "a 2"], "c": ["c 0", "c 1", "c 2"]}


def test_what_a_batch_cannot_do_is_tried_stream_by_stream():
    streams = [event("a", "01"), event("b", "01"), event("c", "01")]
    results = list(watch_streams(Looking(breaks_on="b"), streams, True, frames_of))
    assert [type(result) is StreamFailure for result in results] == [False, True, False]
    assert results[1].reason == "RuntimeError: out of memory"


def test_constants_are_legal_for_each_kind():
    streams = [event("a", "01"), intent("b", 2, (0, 1))]
    for with_thought in (True, False):
        model = ConstantModel("always-speak", with_thought)
        alert, reply = watch_streams(model, streams, with_thought, frames_of)
        assert [turn.action for turn in alert.turns] == ["alert", "alert"]
        assert [turn.reply for turn in reply.turns] == [SENTENCE, SENTENCE]
        silent = watch_streams(
            ConstantModel("always-silent", with_thought), streams, with_thought, frames_of
        )
        assert {turn.action for result in silent for turn in result.turns} == {"silence"}


def test_batches_are_long_first_and_alike():
    streams = [event("a", "0"), intent("b", 3, (0, 1)), event("c", "010"), event("d", "01")]
    ids = [[stream.id for stream in batch] for batch in batches_of(streams, 2)]
    assert ids == [["c", "b"], ["d", "a"]]


def test_predict_command_end_to_end(tmp_path, capsys):
    streams = [event("a", "0110"), intent("i", 10, (2, 4), (7, 10))]
    write_streams(tmp_path / "s.jsonl", streams)
    out = tmp_path / "p.jsonl"
    arguments = ["--streams", str(tmp_path / "s.jsonl"), "--out", str(out)]
    assert main(["predict", *arguments, "--model", "always-speak", "--no-think"]) == 0
    predictions = load_predictions(out)
    assert [prediction.stream_id for prediction in predictions] == ["a", "i"]
    assert predictions[0].prompt == "proact.prompt/1 alert no-think"
    group = score(streams, predictions)["groups"]["intent"]
    assert (group["recall"], group["precision"]) == (1, 0.2)
    assert not out.with_name("p.jsonl.partial").exists()
    run = json.loads(out.with_name("p.jsonl.run.json").read_text())
    assert (run["num_streams"], run["failed"], run["run"]["model"]) == (2, {}, "always-speak")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--model", "no/such"], "no such folder"),
        (["--model", "always-silent", "--batch-size", "0"], "batch_size"),
        (["--model", "always-silent", "--recipe", "none.yaml"], "no such file"),
    ],
)
def test_mistakes_are_named(tmp_path, capsys, options, told):
    write_streams(tmp_path / "s.jsonl", [event("a", "01")])
    arguments = ["--streams", str(tmp_path / "s.jsonl"), "--out", str(tmp_path / "p.jsonl")]
    assert main(["predict", *arguments, *options]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "p.jsonl").exists()


def finished(stream: Stream) -> Prediction:
    return next(iter(watch_streams(ConstantModel("always-speak"), [stream], True, frames_of)))


def unfinished_run(tmp_path, recipe: EvalRecipe = RECIPE) -> list[Stream]:
    """A partial file of a killed always-silent run in which stream a is done (with alerts)."""
    from eval.predict import run_identity

    streams = [event("a", "01"), event("b", "01")]
    identity = run_identity("always-silent", None, recipe)
    with PartialFile(tmp_path / "p.jsonl.partial", identity, streams) as partial:
        partial.append(finished(streams[0]))
    return streams


def test_resume_keeps_finished_streams_and_drops_a_torn_line(tmp_path):
    streams = unfinished_run(tmp_path)
    with (tmp_path / "p.jsonl.partial").open("ab") as file:
        file.write(b'{"told": "x", "predic')
    report = predict(streams, "always-silent", tmp_path / "p.jsonl", RECIPE)
    assert (report.num_resumed, len(report.predictions)) == (1, 2)
    actions = [prediction.turns[0].action for prediction in load_predictions(tmp_path / "p.jsonl")]
    assert actions == ["alert", "silence"]


def test_a_torn_line_does_not_swallow_the_next_one(tmp_path):
    streams = [event("a", "01"), event("b", "01")]
    path = tmp_path / "p.partial"
    for idx in range(2):
        with PartialFile(path, {"model": "m"}, streams) as partial:
            partial.append(finished(streams[idx]))
        with path.open("ab") as file:
            file.write(b'{"told"')
    with PartialFile(path, {"model": "m"}, streams) as partial:
        assert sorted(partial.finished) == ["a", "b"]


def test_resume_predicts_a_changed_stream_again(tmp_path):
    streams = unfinished_run(tmp_path)
    streams[0] = replace(streams[0], profile={"name": "other"})
    report = predict(streams, "always-silent", tmp_path / "p.jsonl", RECIPE)
    assert report.num_resumed == 0
    assert report.predictions[0].turns[0].action == "silence"


def test_resume_with_another_batch_size_is_fine(tmp_path):
    streams = unfinished_run(tmp_path)
    report = predict(streams, "always-silent", tmp_path / "p.jsonl", EvalRecipe(batch_size=7))
    assert report.num_resumed == 1


@pytest.mark.parametrize(
    ("model", "recipe", "told"),
    [
        ("always-speak", RECIPE, "model 'always-silent' (now 'always-speak')"),
        ("always-silent", EvalRecipe(max_turn_tokens=9), "max_turn_tokens 128 (now 9)"),
        ("always-silent", EvalRecipe(with_thought=False), "with_thought True (now False)"),
    ],
)
def test_resume_of_another_run_is_refused_in_words(tmp_path, model, recipe, told):
    streams = unfinished_run(tmp_path)
    before = (tmp_path / "p.jsonl.partial").read_bytes()
    with pytest.raises(RunError) as caught:
        predict(streams, model, tmp_path / "p.jsonl", recipe)
    assert told in str(caught.value)
    assert (tmp_path / "p.jsonl.partial").read_bytes() == before


def test_two_runs_on_one_output_are_refused(tmp_path):
    streams = [event("a", "01")]
    path = tmp_path / "p.partial"
    with (
        PartialFile(path, {"model": "m"}, streams),
        pytest.raises(RunError, match="another run"),
        PartialFile(path, {"model": "m"}, streams),
    ):
        pass


def test_a_bad_line_in_the_middle_is_named(tmp_path):
    streams = unfinished_run(tmp_path)
    with (tmp_path / "p.jsonl.partial").open("ab") as file:
        file.write(b'{"told": "x"}\n')
    with pytest.raises(DataError, match=r"partial:3"):
        predict(streams, "always-silent", tmp_path / "p.jsonl", RECIPE)


def test_digest_ignores_gold_and_sees_the_query():
    stream = event("a", "01")
    assert told_digest(stream) == told_digest(replace(stream, intervals=()))
    assert told_digest(stream) != told_digest(replace(stream, memory=("x",)))


def test_fingerprint_sees_one_changed_weight(tmp_path):
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(bytes(1000))
    before = weights_fingerprint(tmp_path)
    weights.write_bytes(bytes(999) + b"\1")
    assert weights_fingerprint(tmp_path) != before


def test_toy_recipe_loads():
    assert load_recipe("recipes/eval/toy_cpu.yaml", EvalRecipe).max_pixels == 4096
