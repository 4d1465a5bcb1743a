"""The shared trunk gives the plain padded batch's log-probs and LoRA gradients, and samples."""

from __future__ import annotations

import pytest
import torch

from proact_train.model.conversation import encode, encode_answer, end_of_turn_id
from proact_train.model.load import forbidden_token_ids, freeze_vision, load_model, load_processor
from proact_train.model.lora import add_lora, missing_gradients
from proact_train.model.trunk import (
    branch_positions,
    build_layout,
    prepare_trunk,
    trunk_logprobs,
    use_trunk_attention,
)
from proact_train.model.trunk_decoding import SharedCache, sample_completions
from proact_train.stream.prompt import build_messages

from ..unit.tiny_world import MAX_PIXELS, gold_texts, tiny_checkpoint, toy_stream

TEXTS = ("<Silence>", "<think>a red cup on the table</think><Attention>", "<think>no", "x")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_checkpoint(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def processor(folder):
    return load_processor(folder, MAX_PIXELS)


def prompt(processor, num_frames: int = 4, idx: int = 0):
    stream, images = toy_stream(idx)
    answers = gold_texts(stream)[: num_frames - 1]
    messages = build_messages(stream, range(num_frames), answers)
    return encode(processor, messages, images[:num_frames])


def lora_model(folder):
    torch.manual_seed(0)
    model = add_lora(load_model(folder, attn_implementation="sdpa"), r=4, alpha=8)
    with torch.no_grad():  # B starts at zero: without this A would get no gradient
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return model


def plain_logprobs(model, encoded, completions, temperature=1.0):
    """The definition: every completion behind its own copy of the prompt, right-padded."""
    num_prompt, longest = len(encoded), max(map(len, completions))
    ids = torch.zeros(len(completions), num_prompt + longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    types = torch.zeros_like(ids)
    for row, completion in enumerate(completions):
        end = num_prompt + len(completion)
        ids[row, :end] = torch.cat([encoded.input_ids, torch.tensor(completion)])
        types[row, :num_prompt] = encoded.mm_token_type_ids
        mask[row, :end] = 1
    logits = model(
        input_ids=ids,
        attention_mask=mask,
        mm_token_type_ids=types,
        pixel_values=encoded.pixel_values.repeat(len(completions), 1),
        image_grid_thw=encoded.image_grid_thw.repeat(len(completions), 1),
        use_cache=False,
    ).logits
    logps = (logits / temperature).log_softmax(-1)
    return [
        logps[row, num_prompt - 1 : num_prompt - 1 + len(ids_)].gather(
            1, torch.tensor(ids_)[:, None]
        )[:, 0]
        for row, ids_ in enumerate(completions)
    ]


def weighted(logps):
    """A loss in which every token counts differently."""
    flat = torch.cat(logps)
    return (flat * torch.linspace(0.5, 1.5, len(flat))).sum()


def gradients(model):
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.grad is not None
    }


@pytest.mark.parametrize("checkpointing", [None, True, False])
def test_logprobs_and_lora_gradients_equal_the_padded_batch(folder, processor, checkpointing):
    encoded = prompt(processor)
    completions = [encode_answer(processor, text) for text in TEXTS]
    reference = lora_model(folder)
    expected = plain_logprobs(reference, encoded, completions, temperature=0.7)
    weighted(expected).backward()

    model = lora_model(folder)
    use_trunk_attention(model)
    if checkpointing is not None:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable({"use_reentrant": checkpointing})
    model.train()
    trunk = prepare_trunk(model, encoded)
    result = trunk_logprobs(model, trunk, completions, temperature=0.7)
    weighted(result.logps).backward()

    for got, want in zip(result.logps, expected, strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=0)
    assert missing_gradients(model) == []
    want_gradients, got_gradients = gradients(reference), gradients(model)
    assert want_gradients.keys() == got_gradients.keys()
    for name, want in want_gradients.items():
        assert (got_gradients[name] - want).norm() <= 1e-4 * want.norm(), name


def test_branches_at_any_point_of_the_trunk(folder, processor):
    encoded = prompt(processor)
    early = prompt(processor, num_frames=2)
    assert torch.equal(encoded.input_ids[: len(early)], early.input_ids)
    first, second = (encode_answer(processor, text) for text in TEXTS[:2])
    model = load_model(folder, attn_implementation="sdpa")
    with torch.no_grad():
        expected = [
            plain_logprobs(model, early, [first])[0],
            plain_logprobs(model, early, [second])[0],
            plain_logprobs(model, encoded, [second])[0],
        ]
        use_trunk_attention(model)
        points = [len(early), len(early), len(encoded)]
        trunk = prepare_trunk(model, encoded)
        got = trunk_logprobs(model, trunk, [first, second, second], branch_points=points).logps
    for one, want in zip(got, expected, strict=True):
        torch.testing.assert_close(one, want, atol=1e-5, rtol=0)


def test_positions_continue_behind_the_furthest_vision_token():
    trunk = torch.tensor([[0, 1, 1, 2], [0, 1, 5, 2], [0, 1, 1, 2]])
    layout = build_layout(4, [2, 1], [4, 2])
    assert branch_positions(trunk, layout)[:, 4:].tolist() == [[6, 7, 2]] * 3


def test_entropy_is_that_of_the_whole_distribution(folder, processor):
    encoded = prompt(processor, num_frames=1)
    model = load_model(folder, attn_implementation="sdpa")
    answer = encode_answer(processor, "<Silence>")
    with torch.no_grad():
        ids = torch.cat([encoded.input_ids, torch.tensor(answer)])[None]
        logits = model(
            input_ids=ids,
            mm_token_type_ids=torch.cat([encoded.mm_token_type_ids, torch.zeros(len(answer))])[
                None
            ].long(),
            pixel_values=encoded.pixel_values,
            image_grid_thw=encoded.image_grid_thw,
        ).logits[0, len(encoded) - 1 : -1]
        expected = torch.distributions.Categorical(logits=logits / 1.3).entropy()
        use_trunk_attention(model)
        result = trunk_logprobs(model, prepare_trunk(model, encoded), [answer], temperature=1.3)
    torch.testing.assert_close(result.entropies[0], expected, atol=1e-5, rtol=0)


def test_other_passes_run_as_before(folder, processor):
    """Padded batches and cached decoding with the trunk's attention equal plain SDPA's."""
    encoded = prompt(processor)
    completions = [encode_answer(processor, text) for text in TEXTS]
    model = load_model(folder, attn_implementation="sdpa")
    with torch.no_grad():
        before = plain_logprobs(model, encoded, completions)
        use_trunk_attention(model)
        after = plain_logprobs(model, encoded, completions)
        # Several tokens behind a cache need a mask that transformers builds.
        ids, half = torch.tensor([completions[1]]), len(completions[1]) // 2
        at = torch.arange(ids.shape[1]).expand(3, 1, -1)
        whole = model(input_ids=ids, position_ids=at).logits
        cache = model(input_ids=ids[:, :half], position_ids=at[..., :half], use_cache=True).cache
        rest = model(input_ids=ids[:, half:], position_ids=at[..., half:], cache=cache).logits
    torch.testing.assert_close(rest, whole[:, half:], atol=1e-5, rtol=0)
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))
    assert model.model.visual.config._attn_implementation == "sdpa"


def test_sampled_logprobs_equal_teacher_forced_ones(folder, processor, monkeypatch):
    encoded = prompt(processor)
    model = lora_model(folder)
    use_trunk_attention(model)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    trunk = prepare_trunk(model, encoded)
    caches: list[SharedCache] = []
    original = SharedCache.__init__
    monkeypatch.setattr(
        SharedCache, "__init__", lambda self, n: (original(self, n), caches.append(self))[0]
    )
    forbidden, end_id = forbidden_token_ids(processor), end_of_turn_id(processor)
    arguments = (model, trunk, 8, 12, 1.0)
    # A token that was drawn in the middle becomes the one that ends, so that lengths differ.
    first = sample_completions(*arguments, torch.Generator().manual_seed(3), forbidden, end_id)
    end_id = first[0].token_ids[4]
    caches.clear()
    sampled = sample_completions(*arguments, torch.Generator().manual_seed(3), forbidden, end_id)
    assert model.training
    lengths = [len(one.token_ids) for one in sampled]
    assert len(set(lengths)) > 1, lengths
    (cache,) = caches
    # The trunk once, and every token that was fed: each completion's without its last.
    assert cache.num_tokens == len(encoded) + sum(lengths) - len(lengths)
    assert {keys.shape[0] for keys in cache.keys.values()} == {1}
    with torch.no_grad():
        result = trunk_logprobs(model, trunk, [one.token_ids for one in sampled])
        # Sampled without dropout, so compared without.
        plain = plain_logprobs(model.eval(), encoded, [list(one.token_ids) for one in sampled])
    for one, forced, padded in zip(sampled, result.logps, plain, strict=True):
        torch.testing.assert_close(torch.tensor(one.logps), forced, atol=1e-5, rtol=0)
        torch.testing.assert_close(torch.tensor(one.logps), padded, atol=1e-5, rtol=0)
        assert one.is_truncated == (one.token_ids[-1] != end_id)
        assert not set(one.token_ids) & set(forbidden)
    again = sample_completions(*arguments, torch.Generator().manual_seed(3), forbidden, end_id)
    assert again == sampled


def test_frozen_parts_keep_no_gradient(folder, processor):
    model = load_model(folder, attn_implementation="sdpa")
    freeze_vision(model)
    use_trunk_attention(model)
    trunk = prepare_trunk(model, prompt(processor, num_frames=2))
    weighted(trunk_logprobs(model, trunk, [[1, 2], [3]]).logps).backward()
    assert missing_gradients(model) == []
    assert all(parameter.grad is None for parameter in model.model.visual.parameters())
