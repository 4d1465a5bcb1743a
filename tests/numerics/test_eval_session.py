"""The session's kept cache gives what a fresh pass over the whole conversation gives."""

from __future__ import annotations

import pytest
import torch

from eval.models.session import SessionModel, SessionWatch
from eval.recipe import EvalRecipe
from eval.turns import told
from proact_train.model.conversation import encode, encode_answer, model_inputs
from proact_train.stream.prompt import build_messages

from ..unit.tiny_world import MAX_PIXELS, gold_texts, tiny_checkpoint, toy_stream


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_checkpoint(tmp_path_factory.mktemp("tiny"))


def recipe(**more) -> EvalRecipe:
    return EvalRecipe(
        **{"max_pixels": MAX_PIXELS, "max_turn_tokens": 10, "dtype": "float32", **more}
    )


class Forced(SessionWatch):
    """Says what it is told to say and keeps the logits that it would have chosen from."""

    def __init__(self, owner, streams, answers):
        super().__init__(owner, streams)
        self.token_ids = [
            token_id for text in answers for token_id in encode_answer(owner.processor, text)
        ]
        self.logits: list[torch.Tensor] = []
        self.session._choose = self._choose

    def _choose(self, logits, rows):
        assert list(rows) == [0]
        self.logits.append(logits[0])
        return [(self.token_ids[len(self.logits) - 1], 0.0)]


@pytest.mark.parametrize("idx", [0, 1, 2])
def test_logits_equal_a_fresh_pass_over_the_whole_conversation(folder, idx):
    model = SessionModel.load(str(folder), None, recipe(max_turn_tokens=100))
    stream, images = toy_stream(idx)
    frames, answers = [0, 1, 2, 3], gold_texts(stream)[:4]
    watch = Forced(model, [told(stream)], answers)
    said = [watch.step([0], [image])[0] for image in images[:4]]
    assert said == answers
    messages = build_messages(told(stream), frames, answers)
    encoded = encode(model.processor, messages, images[:4], "test")
    with torch.inference_mode():
        whole = model.model(**model_inputs(encoded)).logits[0]
    expected = torch.cat([whole[turn.start - 1 : turn.end - 1] for turn in encoded.turns])
    torch.testing.assert_close(torch.stack(watch.logits), expected, atol=1e-5, rtol=1e-4)


def test_an_answer_cut_at_the_limit_is_closed_in_the_history(folder):
    model = SessionModel.load(str(folder), None, recipe(max_turn_tokens=3))
    stream, images = toy_stream(0)
    token_ids = encode_answer(model.processor, gold_texts(stream)[0])[:3]
    watch = Forced(model, [told(stream)], [])
    watch.token_ids = token_ids * 2
    first, _ = (watch.step([0], [image])[0] for image in images[:2])
    messages = build_messages(told(stream), [0, 1], [first])
    encoded = encode(model.processor, messages, images[:2], "test")
    with torch.inference_mode():
        whole = model.model(**model_inputs(encoded)).logits[0]
    torch.testing.assert_close(watch.logits[3], whole[-1], atol=1e-5, rtol=1e-4)


def test_batch_and_order_do_not_change_samples(folder):
    model = SessionModel.load(str(folder), None, recipe(temperature=1.0, top_p=0.9))
    streams, images = zip(*(toy_stream(idx) for idx in range(3)), strict=True)
    together = model.open(streams).step([0, 1, 2], [frames[0] for frames in images])
    alone = [
        model.open([stream]).step([0], [frames[0]])[0]
        for stream, frames in zip(streams, images, strict=True)
    ]
    assert together == alone
    assert len(set(together)) == 3


def test_answers_are_cut_and_hold_no_vision_tokens(folder):
    model = SessionModel.load(str(folder), None, recipe(temperature=5.0, max_turn_tokens=40))
    stream, images = toy_stream(0)
    watch = model.open([stream])
    for image in images[:3]:
        (answer,) = watch.step([0], [image])
        assert "<|image_pad|>" not in answer
        assert len(model.processor.tokenizer(answer)["input_ids"]) <= 80
