"""The shared trunk: a prompt and all the completions that continue it, in one forward pass.

A row is the trunk followed by its branches. A branch sees the trunk up to its branch point and its
own tokens; its m-rope positions continue the branch point's. The text model's attention goes
through transformers' own registry under the name `proact_trunk`, and no model code is patched:
without a layout that attention is plain SDPA with SDPA's masks. The vision tower is left alone.

Sampling on a trunk: `trunk_decoding.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from .conversation import Encoded

ATTENTION_NAME = "proact_trunk"
# Rows whose log-softmax is computed at once: bounds the float32 copies of the logits.
_ENTROPY_CHUNK = 256


@dataclass(frozen=True)
class Branch:
    """A completion in a row: tokens `[start, start + length)` behind trunk `[0, branch_point)`."""

    branch_point: int
    start: int
    length: int


@dataclass(frozen=True)
class TrunkLayout:
    """Where trunk and branches stand in a row: the branches one by one behind the trunk."""

    trunk_len: int
    branches: tuple[Branch, ...]

    @property
    def num_tokens(self) -> int:
        return self.trunk_len + sum(branch.length for branch in self.branches)

    def groups(self) -> list[tuple[int, list[Branch]]]:
        """(branch point, branches) of neighbouring branches with one branch point."""
        key = lambda branch: branch.branch_point  # noqa: E731
        return [(point, list(branches)) for point, branches in groupby(self.branches, key)]


@dataclass(frozen=True)
class Trunk:
    """A prompt on the model's device, its vision features computed (frozen: without gradient).

    Attributes:
        position_ids: m-rope positions (time, height, width).
        features: `mm_encoder_outputs` for the model's forward; empty without images.
    """

    input_ids: Int[Tensor, " tokens"]
    position_ids: Int[Tensor, "3 tokens"]
    features: dict[str, Any]

    def __len__(self) -> int:
        return int(self.input_ids.shape[0])


@dataclass(frozen=True)
class BranchLogProbs:
    """Per completion: log-probs of its tokens (with gradient) and, detached, the entropies (nats)
    of the distributions that they were drawn from."""

    logps: list[Float[Tensor, " length"]]
    entropies: list[Float[Tensor, " length"]]


def build_layout(
    trunk_len: int, lengths: Sequence[int], branch_points: Sequence[int] | None = None
) -> TrunkLayout:
    """Lays out branches of these lengths behind a trunk.

    Args:
        branch_points: how much of the trunk each branch continues, 1 … trunk_len; None: all of it.
    """
    points = [trunk_len] * len(lengths) if branch_points is None else branch_points
    start, branches = trunk_len, []
    for length, point in zip(lengths, points, strict=True):
        assert length > 0, "an empty completion"
        assert 1 <= point <= trunk_len, "a branch point outside of the trunk"
        branches.append(Branch(point, start, length))
        start += length
    return TrunkLayout(trunk_len, tuple(branches))


def unwrap(model: nn.Module) -> Any:
    """The Qwen3VLForConditionalGeneration inside of DDP, DeepSpeed and PEFT wrappers."""
    inner: Any = model
    while not hasattr(inner, "lm_head") or hasattr(inner, "get_base_model"):
        inner = inner.get_base_model() if hasattr(inner, "get_base_model") else inner.module
    return inner


def use_trunk_attention(model: nn.Module) -> None:
    """Switches the text model (never the vision tower) to `proact_trunk`.

    Everything but the functions of this module and `trunk_decoding` runs as with `sdpa` afterwards.
    """
    AttentionInterface.register(ATTENTION_NAME, trunk_attention)
    AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
    text = unwrap(model).model.language_model
    if text.config._attn_implementation != ATTENTION_NAME:
        text.config._attn_implementation = ATTENTION_NAME
    assert all(layer.self_attn.config is text.config for layer in text.layers)


@torch.no_grad()
def prepare_trunk(model: nn.Module, encoded: Encoded) -> Trunk:
    """Moves a prompt to the model's device; runs the vision tower once and computes positions.

    The tower must be frozen: its features carry no gradient.
    """
    inner = unwrap(model)
    device = inner.model.language_model.embed_tokens.weight.device
    input_ids = encoded.input_ids.to(device)
    grid = encoded.image_grid_thw.to(device) if len(encoded.image_grid_thw) else None
    positions, _ = inner.model.get_rope_index(
        input_ids[None], encoded.mm_token_type_ids[None].to(device), image_grid_thw=grid
    )
    features = {}
    if grid is not None:
        pixel_values = encoded.pixel_values.to(device)
        features["image"] = inner.get_image_features(pixel_values, grid, return_dict=True)
    return Trunk(input_ids, positions[:, 0], features)


def trunk_logprobs(
    model: nn.Module,
    trunk: Trunk,
    completions: Sequence[Sequence[int]],
    temperature: float = 1.0,
    branch_points: Sequence[int] | None = None,
) -> BranchLogProbs:
    """Log-probs of completions of one trunk, in one forward pass of one row.

    Args:
        model: as wrapped for training; its own forward runs, so ZeRO and gradient checkpointing
            work. `use_trunk_attention` must have been called.
        completions: token ids, none empty; the end-of-turn token counts like any other.
        temperature: of sampling, above 0; logits are divided by it.
        branch_points: see `build_layout`.
    """
    assert temperature > 0
    layout = build_layout(len(trunk), [len(ids) for ids in completions], branch_points)
    device = trunk.input_ids.device
    new_ids = torch.tensor([token for ids in completions for token in ids], device=device)
    row_ids = torch.cat([trunk.input_ids, new_ids])
    row_positions = branch_positions(trunk.position_ids, layout)
    sources = _source_positions(layout)
    kept = sorted({position for source in sources for position in source})
    slot = {position: idx for idx, position in enumerate(kept)}
    logits = model(
        input_ids=row_ids[None],
        position_ids=row_positions[:, None],
        # A ready 4-D mask: transformers builds none of its own, and the layout replaces it.
        attention_mask=torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=device),
        mm_encoder_outputs=dict(trunk.features),
        logits_to_keep=torch.tensor(kept, device=device),
        use_cache=False,
        trunk_layout=layout,
    ).logits[0]
    rows = torch.tensor([slot[position] for source in sources for position in source])
    logps, entropies = token_logprobs(logits, rows.to(device), new_ids, temperature)
    lengths = [branch.length for branch in layout.branches]
    return BranchLogProbs(list(logps.split(lengths)), list(entropies.split(lengths)))


def token_logprobs(
    logits: Float[Tensor, "rows vocabulary"],
    rows: Int[Tensor, " tokens"],
    token_ids: Int[Tensor, " tokens"],
    temperature: float,
) -> tuple[Float[Tensor, " tokens"], Float[Tensor, " tokens"]]:
    """Log-prob of each token under its row of logits, and the row's entropy (detached), float32."""
    entropies = []
    # The rows are read in place: a row that many tokens share (the trunk's last) is not copied.
    normalizers = torch.cat(
        [(part.float() / temperature).logsumexp(-1) for part in logits.split(_ENTROPY_CHUNK)]
    )
    logps = logits[rows, token_ids].float() / temperature - normalizers[rows]
    with torch.no_grad():
        for part in logits.split(_ENTROPY_CHUNK):
            log_probabilities = (part.float() / temperature).log_softmax(-1)
            entropies.append(-(log_probabilities.exp() * log_probabilities).sum(-1))
    return logps, torch.cat(entropies)[rows]


def branch_positions(
    trunk_positions: Int[Tensor, "3 trunk"], layout: TrunkLayout
) -> Int[Tensor, "3 tokens"]:
    """m-rope positions of a row: each branch counts on from its branch point's largest position."""
    device = trunk_positions.device
    # Vision tokens can reach further than the text behind them, so the running maximum decides.
    reached = trunk_positions.amax(0).cummax(0).values
    parts = [trunk_positions]
    for branch in layout.branches:
        count = torch.arange(branch.length, device=device) + reached[branch.branch_point - 1] + 1
        parts.append(count.expand(3, -1))
    return torch.cat(parts, dim=1)


def trunk_attention(
    module: Any,
    query: Float[Tensor, "1 heads queries head_dim"],
    key: Float[Tensor, "1 kv_heads keys head_dim"],
    value: Float[Tensor, "1 kv_heads keys head_dim"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    trunk_layout: TrunkLayout | None = None,
    decode_mask: Bool[Tensor, "queries keys"] | None = None,
    **kwargs: Any,
) -> tuple[Float[Tensor, "1 queries heads head_dim"], None]:
    """The attention behind `proact_trunk`; without a layout or decode mask, plain SDPA.

    Args:
        trunk_layout: a whole row: causal inside the trunk; each branch sees the trunk up to its
            branch point and itself, causally.
        decode_mask: single tokens of many completions as the queries, all keys in one cache.
    """
    if decode_mask is not None:
        return _masked(query, key, value, decode_mask, scaling, dropout).transpose(1, 2), None
    if trunk_layout is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **kwargs
        )
    assert query.shape[2] == trunk_layout.num_tokens, "a batch holds one row"
    trunk = slice(0, trunk_layout.trunk_len)
    gqa = query.shape[1] != key.shape[1]
    parts = [
        scaled_dot_product_attention(
            query[:, :, trunk],
            key[:, :, trunk],
            value[:, :, trunk],
            dropout_p=dropout,
            scale=scaling,
            is_causal=True,
            enable_gqa=gqa,
        )
    ]
    for point, branches in trunk_layout.groups():
        own = slice(branches[0].start, branches[-1].start + branches[-1].length)
        keys = torch.cat([key[:, :, :point], key[:, :, own]], dim=2)
        values = torch.cat([value[:, :, :point], value[:, :, own]], dim=2)
        mask = _group_mask(point, [branch.length for branch in branches], query.device)
        parts.append(_masked(query[:, :, own], keys, values, mask, scaling, dropout))
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None


def _masked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Bool[Tensor, "queries keys"],
    scaling: float | None,
    dropout: float,
) -> Tensor:
    """SDPA with one mask for all heads; query heads of one key head become rows, so that keys and
    values are never repeated."""
    _, num_heads, num_queries, head_dim = query.shape
    num_kv_heads = key.shape[1]
    packed = query.reshape(1, num_kv_heads, -1, head_dim)
    mask = mask.repeat(num_heads // num_kv_heads, 1)
    output = scaled_dot_product_attention(
        packed, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling
    )
    return output.reshape(1, num_heads, num_queries, head_dim)


def _group_mask(
    branch_point: int, lengths: Sequence[int], device: torch.device
) -> Bool[Tensor, "queries keys"]:
    """All of the trunk's part, then blocks of causal triangles."""
    num_own = sum(lengths)
    owner = torch.arange(len(lengths), device=device).repeat_interleave(
        torch.tensor(lengths, device=device)
    )
    index = torch.arange(num_own, device=device)
    own = (owner[:, None] == owner[None]) & (index[:, None] >= index[None])
    return torch.cat([own.new_ones(num_own, branch_point), own], dim=1)


def _source_positions(layout: TrunkLayout) -> list[list[int]]:
    """For each branch, the row positions whose logits say its tokens."""
    return [
        [branch.branch_point - 1, *range(branch.start, branch.start + branch.length - 1)]
        for branch in layout.branches
    ]
