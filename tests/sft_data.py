"""A tiny model and a few SFT samples with unequal lengths and weights, for the SFT tests."""

from __future__ import annotations

import random
from pathlib import Path

from PIL import Image

from proact_train.core.contracts import write_samples
from proact_train.core.types import Message, SftSample
from proact_train.model.tiny import SMALLEST, build_tiny_checkpoint
from proact_train.stream import grammar

ANSWERS = (grammar.SILENCE, grammar.ATTENTION, "Turn the pan down now.")
SIDE_PX = 64


def build_samples(root: Path, num_samples: int, seed: int = 0) -> list[SftSample]:
    """Samples of 1 to 4 turns whose frames are one colour each; weights 0.25, 1 and 2."""
    rng = random.Random(seed)
    samples = []
    for idx in range(num_samples):
        messages: list[Message] = [_message("system", "Watch for a red cup.")]
        images = []
        for frame in range(1 + idx % 4):
            path = root / "images" / f"s{idx}" / f"{frame:06d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            colour = (rng.randrange(256), rng.randrange(256), rng.randrange(256))
            Image.new("RGB", (SIDE_PX, SIDE_PX), colour).save(path)
            images.append(str(path))
            user = _message("user", f"<{frame}.0 seconds>")
            user["content"].append({"type": "image"})
            thought = " ".join(rng.choices(("red", "cup", "hand", "table"), k=1 + idx % 3))
            raw = grammar.render(thought, ANSWERS[(idx + frame) % 3])
            answer = _message("assistant", raw)
            answer["loss_weight"] = (0.25, 1.0, 2.0)[(idx + frame) % 3]
            messages += [user, answer]
        samples.append(SftSample(stream_id=f"s{idx}", messages=messages, images=images))
    return samples


def build_inputs(root: Path, num_samples: int = 8) -> tuple[Path, Path]:
    """Writes the model's folder and the samples' file; returns both."""
    samples = build_samples(root, num_samples)
    texts = [p.get("text", "") for s in samples for m in s.messages for p in m["content"]]
    model = build_tiny_checkpoint(root / "tiny", texts, size=SMALLEST, max_pixels=SIDE_PX**2)
    write_samples(root / "train.jsonl", samples)
    return model, root / "train.jsonl"


def _message(role: str, text: str) -> Message:
    return {"role": role, "content": [{"type": "text", "text": text}]}
