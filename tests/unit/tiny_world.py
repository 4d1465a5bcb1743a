"""A smallest model and a few toy streams for tests, made in seconds."""

from __future__ import annotations

import random
from pathlib import Path

from PIL import Image

from data_builders.toy.plan import USES, plan_stream, to_stream
from data_builders.toy.render import draw_frame
from data_builders.toy.world import PLACES
from proact_train.core.types import Message, Stream
from proact_train.model.tiny import SMALLEST, TinySize, build_tiny_checkpoint
from proact_train.stream.grammar import render
from proact_train.stream.prompt import build_messages
from proact_train.stream.timeline import gold_answers

MAX_PIXELS = 64 * 64


def toy_stream(idx: int, split: str = "train") -> tuple[Stream, list[Image.Image]]:
    """A toy stream and its frames, drawn without a video."""
    rng = random.Random(f"tests/{split}/{idx}")
    plan = plan_stream(rng, USES[idx % len(USES)], split, rng.choice(list(PLACES)))
    images = [draw_frame(frame, plan.place).resize((64, 64)) for frame in plan.frames]
    return to_stream(plan, f"toy-{idx}", "/nowhere.mp4", split, rng), images


def gold_texts(stream: Stream) -> list[str]:
    """The raw gold answer of every frame."""
    thoughts = stream.thoughts or {}
    return [render(thoughts[idx], answer) for idx, answer in enumerate(gold_answers(stream))]


def gold_messages(stream: Stream) -> list[Message]:
    """The whole conversation with gold answers."""
    return build_messages(stream, range(stream.num_frames), gold_texts(stream))


def tiny_checkpoint(out: Path, size: TinySize = SMALLEST, seed: int = 0) -> Path:
    """A checkpoint whose tokenizer knows the toy world's words."""
    corpus = ["system\nuser\nassistant\n"] * 20
    for idx in range(60):
        for message in gold_messages(toy_stream(idx)[0]):
            corpus += [part["text"] for part in message["content"] if part["type"] == "text"]
    return build_tiny_checkpoint(out, corpus, seed=seed, size=size, max_pixels=MAX_PIXELS)
