"""`proact predict` with a tiny checkpoint: real videos, batches, and resume after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import av
import pytest
from PIL import Image

from eval.predict import predict
from eval.recipe import EvalRecipe
from proact_train.core.contracts import load_predictions, load_streams, write_streams
from proact_train.core.types import PredictedTurn, Prediction, Stream, Video

from ..unit.tiny_world import MAX_PIXELS, tiny_checkpoint, toy_stream

RECIPE = EvalRecipe(
    max_pixels=MAX_PIXELS, batch_size=2, max_turn_tokens=12, dtype="float32", device="cpu"
)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    tiny_checkpoint(folder / "model")
    streams = []
    for idx in range(4):
        stream, images = toy_stream(idx)
        write_video(folder / f"{idx}.mp4", images)
        streams.append(replace(stream, video=Video(str(folder / f"{idx}.mp4"), float(len(images)))))
    write_streams(folder / "streams.jsonl", streams)
    return folder


def write_video(path: Path, images: list[Image.Image]) -> None:
    with av.open(str(path), "w") as container:
        track = container.add_stream("libx264", rate=1)
        track.width, track.height, track.pix_fmt = 64, 64, "yuv420p"
        for image in images:
            container.mux(track.encode(av.VideoFrame.from_image(image)))
        container.mux(track.encode(None))


def without_latency(predictions: list[Prediction]) -> list[list[PredictedTurn]]:
    return [
        [replace(turn, latency_s=None) for turn in prediction.turns] for prediction in predictions
    ]


def run_batch(world: Path, out: Path, streams: list[Stream], **more) -> list[list[PredictedTurn]]:
    recipe = RECIPE.model_copy(update=more)
    return without_latency(list(predict(streams, str(world / "model"), out, recipe).predictions))


def test_every_frame_is_answered_and_batching_does_not_matter(world, tmp_path):
    streams = load_streams(world / "streams.jsonl")
    together = run_batch(world, tmp_path / "a.jsonl", streams, batch_size=4)
    alone = run_batch(world, tmp_path / "b.jsonl", streams, batch_size=1)
    assert together == alone
    assert [len(turns) for turns in together] == [stream.num_frames for stream in streams]
    assert all(turn.latency_s for p in load_predictions(tmp_path / "a.jsonl") for turn in p.turns)


def test_no_look_ahead(world, tmp_path):
    stream = load_streams(world / "streams.jsonl")[0]
    whole = run_batch(world, tmp_path / "a.jsonl", [stream])[0]
    short = replace(stream, video=Video(stream.video.path, 3.0), intervals=(), thoughts=None)
    assert run_batch(world, tmp_path / "b.jsonl", [short])[0] == whole[:3]


def test_resume_after_a_kill_gives_the_uninterrupted_result(world, tmp_path):
    streams = load_streams(world / "streams.jsonl")
    expected = run_batch(world, tmp_path / "whole.jsonl", streams)
    out = tmp_path / "p.jsonl"
    command = [sys.executable, "-m", "proact_train.cli", "predict"]
    command += ["--streams", str(world / "streams.jsonl"), "--model", str(world / "model")]
    command += ["--out", str(out), "--recipe", str(write_recipe(tmp_path)), "--batch-size", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    partial = out.with_name("p.jsonl.partial")
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    while process.poll() is None and num_lines(partial) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    num_finished = num_lines(partial) - 1
    assert 1 <= num_finished < len(streams), "the kill came too late to test anything"
    with partial.open("ab") as file:
        file.write(b'{"told": "to')
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"{len(streams)} streams predicted ({num_finished} of them before)" in again.stdout
    assert without_latency(load_predictions(out)) == expected
    assert not partial.exists()


def num_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def write_recipe(folder: Path) -> Path:
    from proact_train.core.recipe import dump_recipe

    dump_recipe(RECIPE, folder / "recipe.yaml")
    return folder / "recipe.yaml"
