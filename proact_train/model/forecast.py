"""Forecasts of parameters and GPU memory, from a configuration alone: nothing is loaded.

Counts come from the real model class on the meta device. Bytes come from formulas, each in the
docstring of its function; those of activations and KV cache are measured in tests/numerics. Not
forecast: CUDA's context, fragmentation and NCCL's buffers; `RESERVE_BYTES` stands for them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import RecipeError

GIB = 1024**3
RESERVE_BYTES, CPU_RESERVE_BYTES = 3 * GIB, GIB
# DeepSpeed keeps up to so many gathered parameters at once (stage3_max_live_parameters).
MAX_LIVE_PARAMETERS = 1_000_000_000
# Rows of logits that the fused head holds at once, in float32, with their gradient.
HEAD_CHUNK_TOKENS = 256


@dataclass(frozen=True)
class Dimensions:
    """What the formulas need to know of a Qwen3-VL."""

    hidden: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    vision_hidden: int
    vision_intermediate: int
    patch_values: int
    patches_per_token: int
    num_feature_levels: int


@dataclass(frozen=True)
class Parameters:
    """Counts of parameters: all of the base, its vision part, and those that train."""

    total: int
    vision: int
    trainable: int


def load_config(path: str | Path) -> Any:
    """Reads a config.json of a Qwen3-VL. Raises RecipeError if it is none."""
    from transformers import Qwen3VLConfig

    path = Path(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        model_type = values.get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise RecipeError(
            str(path), str(error), "a config.json", "Give --model-config FILE."
        ) from None
    if model_type != "qwen3_vl":
        raise RecipeError(
            f"{path} model_type", repr(model_type), "'qwen3_vl'", "Give a Qwen3-VL's config.json."
        )
    values.pop("_source", None)
    return Qwen3VLConfig(**values)


def read_dimensions(config: Any) -> Dimensions:
    """Picks the dimensions out of a configuration."""
    text, vision = config.text_config, config.vision_config
    return Dimensions(
        hidden=text.hidden_size,
        num_layers=text.num_hidden_layers,
        num_heads=text.num_attention_heads,
        num_kv_heads=text.num_key_value_heads,
        head_dim=text.head_dim,
        intermediate=text.intermediate_size,
        vocab=text.vocab_size,
        vision_hidden=vision.hidden_size,
        vision_intermediate=vision.intermediate_size,
        patch_values=vision.in_channels * vision.temporal_patch_size * vision.patch_size**2,
        patches_per_token=vision.spatial_merge_size**2,
        num_feature_levels=1 + len(vision.deepstack_visual_indexes),
    )


def count_parameters(
    config: Any, lora: tuple[int, int] | None = None, vision: bool = False
) -> Parameters:
    """Counts on the meta device.

    Args:
        lora: (r, alpha) of an adapter that alone trains; None trains the language model in full.
        vision: whether the vision tower trains too.
    """
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    from .load import freeze_vision, trainable_summary
    from .lora import add_lora

    with torch.device("meta"):
        model: Any = Qwen3VLForConditionalGeneration(config)
        if lora is not None:
            model = add_lora(model, *lora)
        elif not vision:
            freeze_vision(model)
    summary = trainable_summary(model)
    adapter = summary.by_part.get("adapter", (0, 0))[1]
    return Parameters(
        summary.num_total - adapter, summary.by_part["vision"][1], summary.num_trainable
    )


def kv_bytes_per_token(dims: Dimensions, dtype_bytes: int) -> int:
    """`2 * layers * kv_heads * head_dim * bytes`: keys and values; 144 KiB for 8B in bfloat16."""
    return 2 * dims.num_layers * dims.num_kv_heads * dims.head_dim * dtype_bytes


def layer_bytes_per_token(dims: Dimensions, dtype_bytes: int) -> int:
    """What one decoder layer keeps for its backward pass, per token, with b = dtype_bytes.

    Two RMS norms (float32 input, scale, normed value, linear's input): `2 (4 + 2b) h + 8`.
    Queries and keys with their float32 norms, values, attention's output and log-sum:
    `(4 + 3b)(q + kv) + 4 (2 heads + kv_heads)`, where q and kv are heads x head_dim. Rotary
    cosines: `2b head_dim`. Gated MLP (gate, up, activated gate, product): `4b i`. SDPA or
    FlashAttention; masks are not made.
    """
    b, query = dtype_bytes, dims.num_heads * dims.head_dim
    kv = dims.num_kv_heads * dims.head_dim
    norms = 2 * (4 + 2 * b) * dims.hidden + 8
    attention = (4 + 3 * b) * (query + kv) + 4 * (2 * dims.num_heads + dims.num_kv_heads)
    return norms + attention + 2 * b * dims.head_dim + 4 * b * dims.intermediate


def backward_bytes_per_token(dims: Dimensions, dtype_bytes: int) -> int:
    """Gradients alive in one layer's backward pass: of the MLP's product, gate and up: `3b i`."""
    return 3 * dtype_bytes * dims.intermediate


def activation_parts(
    dims: Dimensions, num_tokens: int, dtype_bytes: int, checkpointing: bool, offload: bool
) -> dict[str, int]:
    """Bytes of the backward pass of `num_tokens` tokens, by part.

    With checkpointing each layer keeps its input (`b h` a token) and one layer at a time is
    computed again; offloading leaves the inputs of two layers on the GPU. Without it all layers
    keep all that `layer_bytes_per_token` says.
    """
    layer = num_tokens * layer_bytes_per_token(dims, dtype_bytes)
    gradients = num_tokens * backward_bytes_per_token(dims, dtype_bytes)
    if not checkpointing:
        kept = 2 if offload else dims.num_layers
        return {"activations": layer * kept, "layer_gradients": gradients}
    kept = 2 if offload else dims.num_layers
    inputs = kept * num_tokens * dims.hidden * dtype_bytes
    return {"checkpoints": inputs, "one_layer": layer, "layer_gradients": gradients}


def head_bytes(dims: Dimensions, num_tokens: int) -> int:
    """Logits and their gradient of one chunk of the fused head, float32: `8 vocab * rows`."""
    return 8 * dims.vocab * min(num_tokens, HEAD_CHUNK_TOKENS)


def vision_bytes(dims: Dimensions, num_image_tokens: int, dtype_bytes: int) -> int:
    """The frozen tower's pass over all frames, without gradient: the peak of one block.

    Per patch: pixels `b (3 * 2 * 16 * 16)`, residual and normed value `2b h`, and the larger of
    queries, keys, values and output (`4b h`) or the MLP before and after its activation (`2b i`).
    """
    block = 2 * dims.vision_hidden + max(4 * dims.vision_hidden, 2 * dims.vision_intermediate)
    patches = num_image_tokens * dims.patches_per_token
    return patches * dtype_bytes * (dims.patch_values + block)


def feature_bytes(dims: Dimensions, num_image_tokens: int, dtype_bytes: int) -> int:
    """Vision features and their deepstack levels, kept for the whole pass: `levels * b h`."""
    return dims.num_feature_levels * num_image_tokens * dims.hidden * dtype_bytes


def state_parts(
    parameters: Parameters, dtype_bytes: int, zero_stage: int, num_ranks: int
) -> dict[str, int]:
    """Weights, gradients and Adam's state on one GPU.

    ZeRO-3 shards all of them over the ranks and holds up to `MAX_LIVE_PARAMETERS` gathered ones;
    ZeRO-2 shards gradients and optimiser; stage 0 nothing. Gradients are in the weights' type;
    Adam keeps two float32 moments and, for bfloat16, the float32 master copy and gradient (16
    bytes a trained parameter in all, 8 for float32).
    """
    shard_weights = num_ranks if zero_stage >= 3 else 1
    shard_state = num_ranks if zero_stage >= 2 else 1
    optimiser = 16 if dtype_bytes == 2 else 8
    parts = {
        "weights": parameters.total * dtype_bytes // shard_weights,
        "gradients": parameters.trainable * dtype_bytes // shard_state,
        "optimiser": parameters.trainable * optimiser // shard_state,
    }
    if zero_stage >= 3:
        parts["gathered_weights"] = min(parameters.total, MAX_LIVE_PARAMETERS) * dtype_bytes
    return parts


def peak_bytes(standing: dict[str, int], phases: dict[str, dict[str, int]]) -> int:
    """What stands throughout plus the largest of the phases that follow one another."""
    return sum(standing.values()) + max(sum(parts.values()) for parts in phases.values())
