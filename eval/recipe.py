"""What an evaluation run can set. Loading and overriding: `proact_train/core/recipe.py`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from proact_train.core.recipe import Recipe


class EvalRecipe(Recipe):
    """How a model watches streams."""

    max_pixels: int = Field(default=200_704, ge=1024)
    """Ceiling of a resized frame's area in pixels (one token stands for 32 x 32). The stage that
    trained the model should have used the same."""

    with_thought: bool = True
    """False asks for the bare answer (the paper's W/O Think row)."""

    max_turn_tokens: int = Field(default=128, ge=1, le=4096)
    """An answer is cut there and closed; what was cut stays in the history as it is."""

    temperature: float = Field(default=0.0, ge=0.0, le=10.0)
    """0 decodes greedily."""

    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    """Nucleus of sampling; without effect at temperature 0."""

    seed: int = Field(default=0, ge=0)
    """Of sampling."""

    batch_size: int = Field(default=8, ge=1)
    """Streams watched side by side; their KV caches must fit in memory together."""

    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    """Of the weights and the cache."""

    device: str | None = None
    """As in torch, such as `cuda:0`; null takes CUDA where there is one, else the CPU."""

    attn_implementation: Literal["sdpa", "eager"] | None = None
    """As in transformers; null takes its choice. The session's masks are explicit, which
    FlashAttention does not take."""
