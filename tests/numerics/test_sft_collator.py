"""The collator's masks and weights by hand, and its memory, bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from proact_train.core.errors import DataError
from proact_train.core.types import SftSample
from proact_train.model.conversation import encode
from proact_train.model.load import load_processor
from proact_train.sft.collator import (
    SftCollator,
    _pack_pixels,
    answer_class,
    build_row,
    check_samples,
)
from proact_train.sft.trainer import describe_counts
from tests.sft_data import SIDE_PX, build_inputs, build_samples


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("collator")
    build_inputs(root, 4)
    return root


@pytest.fixture(scope="module")
def samples(root: Path) -> list[SftSample]:
    return build_samples(root, 4)


@pytest.fixture(scope="module")
def processor(root: Path) -> Any:
    return load_processor(root / "tiny", SIDE_PX**2)


def test_classes_of_answers() -> None:
    assert answer_class("<think>a</think><Silence>") == 0
    assert answer_class("<think>a</think><Attention>") == 1
    assert answer_class("<think>a</think>Turn it down.") == 2
    assert answer_class("<Silence>") == 0
    assert answer_class("<think></think><Silence> now") == 2


def test_weights_labels_and_classes_by_hand(processor: Any, samples: list[SftSample]) -> None:
    batch = SftCollator(processor, samples)([{"sample_idx": 1}, {"sample_idx": 0}])
    # Sample 0 has one turn: `<Silence>`, weight 0.25; sample 1 has two.
    length = len(encode(processor, samples[0].messages, samples[0].images))
    row = {key: value[1] for key, value in batch.items() if len(value) == 2}
    raw = "".join(part["text"] for part in samples[0].messages[-1]["content"])
    ids = processor.tokenizer(raw + "<|im_end|>", add_special_tokens=False)["input_ids"]
    end = length - 1  # a line break stands behind <|im_end|>
    assert row["input_ids"][end - len(ids) : end].tolist() == ids
    assert row["labels"][end - len(ids) : end].tolist() == ids
    assert row["labels"].ne(-100).sum() == len(ids)
    assert row["loss_weights"].unique().tolist() == [0.0, 0.25]
    close = ids.index(processor.tokenizer.convert_tokens_to_ids("</think>"))
    assert row["class_ids"].nonzero().flatten().tolist() == list(
        range(end - len(ids) + close + 1, end)
    )
    assert row["class_ids"].max() == 1
    assert row["attention_mask"].tolist() == [1] * length + [0] * (len(row["labels"]) - length)
    assert batch["turn_counts"].tolist() == [[0, 1, 1], [1, 0, 0]]
    assert len(batch["image_grid_thw"]) == 3


def test_an_answer_without_weight_is_not_counted(processor: Any, samples: list[SftSample]) -> None:
    messages = [dict(message) for message in samples[1].messages]
    messages[2]["loss_weight"] = 0.0
    row = build_row(processor, SftSample("s", messages, samples[1].images))
    assert row.turn_counts.sum() == 1


def test_cached_rows_are_bit_identical(processor: Any, root: Path) -> None:
    path = root / "ramp.png"
    Image.frombytes("RGB", (64, 64), bytes(i * 7 % 256 for i in range(64 * 64 * 3))).save(path)
    sample = build_samples(root, 1)[0]
    sample = SftSample("ramp", sample.messages, [str(path)])
    collator = SftCollator(processor, [sample], cache_mib=1)
    first, second = collator([{"sample_idx": 0}]), collator([{"sample_idx": 0}])
    assert collator._cache[0].encoded.pixel_values.dtype == torch.uint8
    assert all(torch.equal(first[key], second[key]) for key in first)
    inexact = build_row(processor, sample)
    inexact.encoded.pixel_values[0, 0] = 0.123
    assert _pack_pixels(processor, inexact) is inexact


def test_counting_equals_encoding(processor: Any, samples: list[SftSample]) -> None:
    lengths = check_samples(processor, samples, 1000, with_thought=True)
    assert lengths == [len(encode(processor, s.messages, s.images)) for s in samples]


def test_refuses_long_empty_and_unfit_samples(processor: Any, samples: list[SftSample]) -> None:
    longest = len(encode(processor, samples[3].messages, samples[3].images))
    check_samples(processor, samples, longest, with_thought=True)
    with pytest.raises(DataError, match=r"'s3'.*nothing is truncated"):
        check_samples(processor, samples, longest - 1, with_thought=True)
    with pytest.raises(DataError, match="no samples"):
        check_samples(processor, [], 1000, with_thought=True)
    with pytest.raises(DataError, match="with_thought"):
        check_samples(processor, samples, 1000, with_thought=False)


def test_a_class_without_tokens_has_no_accuracy() -> None:
    counts = torch.tensor([[4, 2, 0, 4], [1, 1, 0, 4], [0, 1, 0, 2], [50, 0, 0, 0]]).double()
    metrics = describe_counts(counts)
    assert metrics["accuracy"] == pytest.approx(0.6)
    assert metrics["accuracy_thought"] == 0.25
    assert metrics["accuracy_silence"] == 0.5
    assert "accuracy_alert" not in metrics
    assert metrics["accuracy_reply"] == 1.0
    assert metrics["num_completions"] == 3
