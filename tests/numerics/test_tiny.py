"""The tiny model: the real classes, loadable, deterministic, with Qwen's tokens in Qwen's order."""

from pathlib import Path

import pytest
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    Qwen2Tokenizer,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
)

from proact_train.model.tiny import QWEN_ADDED_TOKENS, TinySize
from tests.unit.tiny_world import gold_messages, tiny_checkpoint, toy_stream


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("tiny"))


def test_the_folder_loads_as_the_real_classes(checkpoint: Path):
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    processor = AutoProcessor.from_pretrained(checkpoint)
    assert type(model) is Qwen3VLForConditionalGeneration
    assert type(processor) is Qwen3VLProcessor
    assert isinstance(processor.tokenizer, Qwen2Tokenizer)
    assert model.config.text_config.vocab_size == len(processor.tokenizer)
    assert model.config.image_token_id == processor.image_token_id


def test_added_tokens_follow_the_pieces_in_qwens_order(checkpoint: Path):
    tokenizer = AutoProcessor.from_pretrained(checkpoint).tokenizer
    ids = [tokenizer.convert_tokens_to_ids(token) for token, _ in QWEN_ADDED_TOKENS]
    assert ids == list(range(len(tokenizer) - len(QWEN_ADDED_TOKENS), len(tokenizer)))
    special = set(tokenizer.all_special_tokens)
    assert {"<|im_end|>", "<|endoftext|>"} <= special
    assert not {"<think>", "</think>"} & special


def test_the_same_arguments_give_the_same_bytes(checkpoint: Path, tmp_path: Path):
    again = tiny_checkpoint(tmp_path / "again")
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (again / name).read_bytes() == (checkpoint / name).read_bytes()
    other = tiny_checkpoint(tmp_path / "other", seed=1)
    name = "model.safetensors"
    assert (other / name).read_bytes() != (checkpoint / name).read_bytes()


def test_the_worlds_words_are_single_tokens_and_text_round_trips(checkpoint: Path):
    tokenizer = AutoProcessor.from_pretrained(checkpoint).tokenizer
    for word in (" red", " ball", " purple", " ring", " left", " yes", " view"):
        assert len(tokenizer.encode(word, add_special_tokens=False)) == 1, word
    for message in gold_messages(toy_stream(2)[0]):
        text = message["content"][0]["text"]
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_the_default_size_is_about_a_million_parameters(tmp_path: Path):
    path = tiny_checkpoint(tmp_path / "default", size=TinySize())
    model = Qwen3VLForConditionalGeneration.from_pretrained(path)
    assert 1.2e6 < sum(parameter.numel() for parameter in model.parameters()) < 1.6e6
