"""A session's kept cache gives what one fresh pass over its own tokens gives."""

from __future__ import annotations

import pytest
import torch

from proact_train.core.errors import RunError
from proact_train.model.conversation import concatenate, encode_turn
from proact_train.model.load import forbidden_token_ids, load_model, load_processor
from proact_train.model.session import StreamingSession
from proact_train.stream.prompt import build_messages

from ..unit.tiny_world import MAX_PIXELS, tiny_checkpoint, toy_stream

NUM_FRAMES = (4, 2, 3)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    folder = tiny_checkpoint(tmp_path_factory.mktemp("tiny"))
    return load_model(folder), load_processor(folder, MAX_PIXELS)


def new_messages(stream, frame: int):
    messages = build_messages(stream, range(frame + 1), [""] * frame)
    return messages if frame == 0 else messages[-1:]


def watch(loaded, indices=(0, 1, 2), order=1, **options):
    """Plays toy streams of unequal lengths; returns the session and the answers by stream."""
    model, processor = loaded
    worlds = [toy_stream(idx) for idx in indices]
    options = {"max_turn_tokens": 9, "temperature": 1.0, "seeds": list(indices)} | options
    session = StreamingSession(model, processor, len(worlds), **options)
    answers = [[] for _ in worlds]
    for frame in range(max(NUM_FRAMES[idx] for idx in indices)):
        active = [row for row, idx in enumerate(indices) if frame < NUM_FRAMES[idx]][::order]
        said = session.step(
            active,
            [new_messages(worlds[row][0], frame) for row in active],
            [[worlds[row][1][frame]] for row in active],
        )
        for row, answer in zip(active, said, strict=True):
            answers[row].append(answer)
    return session, answers


def fresh_logps(loaded, idx, session, row, answers):
    """One pass over the session's own tokens; the log-probs of each answer's tokens."""
    model, processor = loaded
    stream, images = toy_stream(idx)
    pieces = [
        encode_turn(processor, new_messages(stream, frame), [images[frame]], frame == 0)
        for frame in range(len(answers))
    ]
    ids, types, spans = [], [], []
    for piece, answer in zip(pieces, answers, strict=True):
        ids += piece.input_ids.tolist()
        types += piece.mm_token_type_ids.tolist()
        spans.append((len(ids), len(ids) + len(answer.token_ids)))
        closed = [*answer.token_ids, *([session.end_id] if answer.is_truncated else [])]
        ids += closed
        types += [0] * len(closed)
    assert ids == session.token_ids[row]
    vision = concatenate(pieces)
    with torch.no_grad():
        logps = (
            model(
                input_ids=torch.tensor([ids]),
                mm_token_type_ids=torch.tensor([types]),
                pixel_values=vision.pixel_values,
                image_grid_thw=vision.image_grid_thw,
            )
            .logits[0]
            .log_softmax(-1)
        )
    tokens = torch.tensor(ids)
    return [logps[range(start - 1, end - 1), tokens[start:end]] for start, end in spans]


def test_every_turn_equals_one_pass_over_the_sessions_own_tokens(loaded):
    session, answers = watch(loaded)
    assert [len(said) for said in answers] == list(NUM_FRAMES)
    for row, said in enumerate(answers):
        expected = fresh_logps(loaded, row, session, row, said)
        for answer, want in zip(said, expected, strict=True):
            torch.testing.assert_close(torch.tensor(answer.logps), want, atol=1e-5, rtol=0)


def test_neither_batch_nor_order_changes_what_a_stream_says(loaded):
    _, together = watch(loaded)
    _, backwards = watch(loaded, order=-1)
    for idx in range(3):
        _, (alone,) = watch(loaded, indices=(idx,))
        texts = [answer.token_ids for answer in alone]
        assert texts == [answer.token_ids for answer in together[idx]]
        assert texts == [answer.token_ids for answer in backwards[idx]]


def test_greedy_answers_are_cut_and_hold_no_vision_token(loaded):
    model, processor = loaded
    forbidden = forbidden_token_ids(processor)
    # Vision tokens become by far the likeliest ones.
    hook = model.lm_head.register_forward_hook(
        lambda module, inputs, output: output.index_fill(1, torch.tensor(forbidden), 99.0)
    )
    try:
        _, answers = watch(loaded, temperature=0.0, max_turn_tokens=3)
    finally:
        hook.remove()
    for answer in (answer for said in answers for answer in said):
        assert not set(answer.token_ids) & set(forbidden)
        assert answer.is_truncated
        assert len(answer.token_ids) == 3


def test_a_stream_past_the_context_stops_with_its_number(loaded):
    with pytest.raises(RunError, match=r"stream 0 of the batch: found \d+ tokens of context"):
        watch(loaded, indices=(0,), max_context_tokens=60)
