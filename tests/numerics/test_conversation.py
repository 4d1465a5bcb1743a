"""One tokenization for SFT, RL and evaluation: prefixes, pieces, weights and refusals."""

from pathlib import Path

import pytest
import torch

from proact_train.core.errors import DataError
from proact_train.model.conversation import (
    concatenate,
    decode_answer,
    encode,
    encode_answer,
    encode_turn,
    model_inputs,
)
from proact_train.model.load import forbidden_token_ids, load_model, load_processor
from proact_train.stream.prompt import build_messages
from tests.unit.tiny_world import MAX_PIXELS, gold_messages, gold_texts, tiny_checkpoint, toy_stream


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def processor(checkpoint: Path):
    return load_processor(checkpoint, MAX_PIXELS)


@pytest.mark.parametrize("idx", [0, 1, 2])
def test_the_sft_prefix_of_a_turn_is_its_generation_prompt(processor, idx: int):
    stream, images = toy_stream(idx)
    answers = gold_texts(stream)
    whole = encode(processor, gold_messages(stream), images)
    for turn in range(stream.num_frames):
        messages = build_messages(stream, range(turn + 1), answers[:turn])
        prompt = encode(processor, messages, images[: turn + 1])
        start = whole.turns[turn].start
        assert torch.equal(prompt.input_ids, whole.input_ids[:start]), turn
        answer = whole.input_ids[start : whole.turns[turn].end].tolist()
        assert answer == encode_answer(processor, answers[turn])
        assert decode_answer(processor, answer) == answers[turn]


@pytest.mark.parametrize("answer", ["\n\n<Silence>", " x", "<think>", "", "<Silence>\n"])
def test_an_odd_answer_never_changes_the_tokens_around_it(processor, answer: str):
    stream, images = toy_stream(0)
    plain = encode(processor, build_messages(stream, [0, 1], ["<Silence>"]), images[:2])
    odd = encode(processor, build_messages(stream, [0, 1], [answer]), images[:2])
    before, after = plain.turns[0].start, len(plain) - plain.turns[0].end
    assert torch.equal(odd.input_ids[:before], plain.input_ids[:before])
    assert torch.equal(odd.input_ids[-after:], plain.input_ids[-after:])


def test_pieces_of_turns_add_up_to_the_whole(processor):
    stream, images = toy_stream(1)
    answers = gold_texts(stream)
    whole = encode(processor, gold_messages(stream), images)
    ids: list[int] = []
    pieces = []
    messages = build_messages(stream, range(stream.num_frames), answers)
    for turn in range(stream.num_frames):
        new = messages[:2] if turn == 0 else messages[1 + 2 * turn : 2 + 2 * turn]
        piece = encode_turn(processor, new, [images[turn]], is_first=turn == 0)
        pieces.append(piece)
        ids += [*piece.input_ids.tolist(), *encode_answer(processor, answers[turn])]
    assert ids == whole.input_ids[: len(ids)].tolist()
    joined = concatenate(pieces)
    assert torch.equal(joined.pixel_values, whole.pixel_values)
    assert torch.equal(joined.image_grid_thw, whole.image_grid_thw)


def test_weights_stand_on_answers_and_their_end_alone(processor):
    stream, images = toy_stream(0)
    messages = build_messages(stream, [0, 1], ["<Silence>", "<Attention>"])
    messages[4]["loss_weight"] = 0.25
    encoded = encode(processor, messages, images[:2])
    first, second = encoded.turns
    expected = torch.zeros(len(encoded))
    expected[first.start : first.end] = 1.0
    expected[second.start : second.end] = 0.25
    assert torch.equal(encoded.loss_weights, expected)
    end_id = processor.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert encoded.input_ids[[first.end - 1, second.end - 1]].tolist() == [end_id, end_id]
    assert encoded.turn_ids[first.start].item() == 0
    assert encoded.turn_ids[second.end - 1].item() == 1


def test_the_encoded_row_is_what_the_model_and_the_processor_see(checkpoint: Path, processor):
    stream, images = toy_stream(2)
    messages = build_messages(stream, [0, 1, 2], ["<Silence>", "a reply"])
    encoded = encode(processor, messages, images[:3])
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    theirs = processor(text=[text], images=images[:3], return_tensors="pt")
    assert torch.equal(encoded.input_ids, theirs["input_ids"][0])
    assert torch.equal(encoded.mm_token_type_ids, theirs["mm_token_type_ids"][0])
    assert torch.equal(encoded.pixel_values, theirs["pixel_values"])
    logits = load_model(checkpoint)(**model_inputs(encoded)).logits
    assert logits.shape[:2] == (1, len(encoded))


def test_refusals_name_the_place(processor):
    stream, images = toy_stream(0)
    messages = build_messages(stream, [0, 1], ["<Silence>"])
    with pytest.raises(DataError, match="s-7: found 2 image places for 1 images"):
        encode(processor, messages, images[:1], where="s-7")
    with pytest.raises(DataError, match="the control token"):
        encode(processor, build_messages(stream, [0, 1], ["<|im_end|>"]), images[:2])
    with pytest.raises(DataError, match="no readable image"):
        encode(processor, messages[:2], ["/nowhere/000000.jpg"])


def test_vision_ids_are_forbidden_while_sampling(processor):
    forbidden = forbidden_token_ids(processor)
    for token in ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>"):
        assert processor.tokenizer.convert_tokens_to_ids(token) in forbidden
    assert processor.tokenizer.convert_tokens_to_ids("<|im_end|>") not in forbidden
