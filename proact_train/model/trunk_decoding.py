"""Sampling the completions of a trunk: one prefill, then all completions as the query rows of one
batch-1 forward over one cache. The trunk's keys and values are written once and never copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .trunk import Trunk, TrunkLayout


@dataclass(frozen=True)
class SampledCompletion:
    """One completion.

    Attributes:
        token_ids: its end-of-turn token included, unless it is truncated.
        logps: log-prob of each token at the sampling temperature over the whole vocabulary, as
            `trunk_logprobs` gives them (the forbidden ids take no part in sampling, but are not
            taken out of the normalization).
        is_truncated: whether `max_new_tokens` ended it.
    """

    token_ids: tuple[int, ...]
    logps: tuple[float, ...]
    is_truncated: bool


class SharedCache:
    """Keys and values of a trunk and of what was decoded on it, in buffers of fixed size.

    `num_tokens` counts the positions in use; each forward pass writes behind them, in place.
    """

    def __init__(self, capacity: int):
        self.capacity, self.num_tokens = capacity, 0
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}

    def update(
        self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Writes `[1, kv_heads, new, head_dim]`; returns views of everything in use."""
        end = self.num_tokens + key.shape[2]
        assert end <= self.capacity
        if layer_idx not in self.keys:
            shape = (1, key.shape[1], self.capacity, key.shape[3])
            self.keys[layer_idx] = key.new_empty(shape)
            self.values[layer_idx] = value.new_empty(shape)
        self.keys[layer_idx][:, :, self.num_tokens : end] = key
        self.values[layer_idx][:, :, self.num_tokens : end] = value
        return self.keys[layer_idx][:, :, :end], self.values[layer_idx][:, :, :end]

    def advance(self, num_new: int) -> None:
        """Counts the tokens of a finished forward pass."""
        self.num_tokens += num_new

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.num_tokens


@torch.no_grad()
def sample_completions(
    model: nn.Module,
    trunk: Trunk,
    num_generations: int,
    max_new_tokens: int,
    temperature: float,
    generator: torch.Generator,
    forbidden_ids: list[int],
    eos_id: int,
) -> list[SampledCompletion]:
    """Samples completions of one trunk (top_p 1).

    The model is in evaluation mode meanwhile (gradient checkpointing would drop the cache) and back
    in its mode afterwards.

    Args:
        temperature: above 0, or 0 for the likeliest token (log-probs then at temperature 1).
        generator: on the model's device; the same state gives the same completions.
        forbidden_ids: never sampled: `load.forbidden_token_ids`.
        eos_id: ends a completion: `conversation.end_of_turn_id`.
    """
    assert temperature >= 0
    assert num_generations > 0
    assert max_new_tokens > 0
    was_training = model.training
    model.eval()  # samples and their log-probs are the policy's own: no dropout
    try:
        return _sample(
            model,
            trunk,
            num_generations,
            max_new_tokens,
            temperature,
            generator,
            forbidden_ids,
            eos_id,
        )
    finally:
        model.train(was_training)


def prefill(model: nn.Module, trunk: Trunk, capacity: int) -> tuple[SharedCache, Tensor]:
    """Runs the trunk once; returns its cache and the logits behind its last token."""
    cache = SharedCache(capacity)
    logits = model(
        input_ids=trunk.input_ids[None],
        position_ids=trunk.position_ids[:, None],
        attention_mask=_ready_mask(trunk.input_ids.device),
        mm_encoder_outputs=dict(trunk.features),
        cache=cache,
        use_cache=True,
        logits_to_keep=1,
        trunk_layout=TrunkLayout(len(trunk), ()),
    ).logits[0, -1]
    cache.advance(len(trunk))
    return cache, logits


def _sample(
    model: nn.Module,
    trunk: Trunk,
    num_generations: int,
    max_new_tokens: int,
    temperature: float,
    generator: torch.Generator,
    forbidden_ids: list[int],
    eos_id: int,
) -> list[SampledCompletion]:
    device = trunk.input_ids.device
    cache, logits = prefill(model, trunk, len(trunk) + num_generations * (max_new_tokens - 1))
    logits = logits.expand(num_generations, -1)
    forbidden = torch.tensor(sorted(forbidden_ids), dtype=torch.long, device=device)
    active = torch.arange(num_generations, device=device)
    owners = torch.empty(0, dtype=torch.long, device=device)
    position = int(trunk.position_ids.max()) + 1
    token_ids: list[list[int]] = [[] for _ in range(num_generations)]
    logps: list[list[float]] = [[] for _ in range(num_generations)]
    for step in range(max_new_tokens):
        chosen, chosen_logps = _choose(logits, forbidden, temperature, generator)
        for row, token, logp in zip(
            active.tolist(), chosen.tolist(), chosen_logps.tolist(), strict=True
        ):
            token_ids[row].append(token)
            logps[row].append(logp)
        goes_on = chosen != eos_id
        active, chosen = active[goes_on], chosen[goes_on]
        if step + 1 == max_new_tokens or not len(active):
            break
        owners = torch.cat([owners, active])
        logits = _decode_step(model, cache, len(trunk), chosen, active, owners, position + step)
    return [
        SampledCompletion(tuple(ids), tuple(row_logps), ids[-1] != eos_id)
        for ids, row_logps in zip(token_ids, logps, strict=True)
    ]


def _decode_step(
    model: nn.Module,
    cache: SharedCache,
    trunk_len: int,
    tokens: Int[Tensor, " active"],
    active: Int[Tensor, " active"],
    owners: Int[Tensor, " decoded"],
    position: int,
) -> Float[Tensor, "active vocabulary"]:
    """One token of every unfinished completion, as the rows of one sequence; `owners` says whose
    each decoded cache position is, the new ones included."""
    own = owners[None] == active[:, None]
    mask = torch.cat([own.new_ones(len(active), trunk_len), own], dim=1)
    device = tokens.device
    logits = model(
        input_ids=tokens[None],
        position_ids=torch.full((3, 1, len(tokens)), position, device=device),
        attention_mask=_ready_mask(device),
        cache=cache,
        use_cache=True,
        decode_mask=mask,
    ).logits[0]
    cache.advance(len(tokens))
    return logits


def _choose(
    logits: Float[Tensor, "active vocabulary"],
    forbidden: Int[Tensor, " ids"],
    temperature: float,
    generator: torch.Generator,
) -> tuple[Int[Tensor, " active"], Float[Tensor, " active"]]:
    log_probabilities = (logits.float() / (temperature or 1.0)).log_softmax(-1)
    allowed = log_probabilities.index_fill(1, forbidden, float("-inf"))
    if temperature == 0:
        chosen = allowed.argmax(-1)
    else:
        chosen = torch.multinomial(allowed.exp(), 1, generator=generator)[:, 0]
    return chosen, log_probabilities.gather(1, chosen[:, None])[:, 0]


def _ready_mask(device: torch.device) -> Tensor:
    """A 4-D mask, so that transformers builds none of its own; the attention takes no notice."""
    return torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=device)
