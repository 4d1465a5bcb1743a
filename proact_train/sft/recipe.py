"""What a recipe of stage 1 may say. No torch here: `proact preflight` reads it in a blink.

The paper's settings: lr 1e-6 to 1e-7 by a cosine, batch 16, 128K tokens, 2 epochs, max_pixels
1,003,520, language model trained in full, vision tower and merger frozen. What it leaves open
(warm-up, weight decay, clipping) has its default and reason here.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from ..core.recipe import Recipe
from ..stream.resize import TOKEN_SIDE_PX, check_holds_one_turn

# A run may resume under another value of these: none changes a number that is trained.
KEYS_FREE_ON_RESUME = frozenset(
    {"report_to", "logging_steps", "save_steps", "keep_checkpoints", "gpu_memory_gib"}
    | {"num_workers", "encoded_cache_mib", "output_dir", "run_name", "micro_batch_size"}
)


class SftRecipe(Recipe):
    """Full-parameter supervised fine-tuning on whole streams."""

    # A Hugging Face folder or a run folder.
    model: str = Field(min_length=1)
    # SFT samples from `proact build sft` (JSON Lines).
    train_samples: str = Field(min_length=1)
    # The run folder; a run that was stopped goes on from its newest complete checkpoint.
    output_dir: str = Field(min_length=1)
    # How the run is called in wandb; None takes the run folder's name.
    run_name: str | None = None

    # What is seen. One max_pixels a stage, for training and evaluation alike.
    max_pixels: int = Field(1_003_520, ge=TOKEN_SIDE_PX**2)
    # A longer sample is refused at the start; `proact build sft` drops its whole turns instead.
    max_context_tokens: int = Field(131_072, ge=1)
    # Whether the samples' answers lead with a thought; a file of the other kind is refused.
    with_thought: bool = True

    # Streams of one optimiser step, over all processes and accumulation steps.
    batch_size: int = Field(16, ge=1)
    # Streams of one forward pass on one process. The number of processes times this divides
    # batch_size; the quotient is the number of accumulation steps.
    micro_batch_size: int = Field(1, ge=1)
    # The order in an epoch: shuffled, or as the file has them (a curriculum).
    sampling: Literal["random", "sequential"] = "random"
    num_train_epochs: int = Field(2, ge=1)
    # Ends the run (and its cosine) at this optimiser step; None runs all epochs.
    max_steps: int | None = Field(None, ge=1)

    learning_rate: float = Field(1e-6, gt=0.0)
    # Where the cosine ends.
    min_lr: float = Field(1e-7, ge=0.0)
    # Share of the optimiser steps that rise linearly to learning_rate.
    warmup_ratio: float = Field(0.03, ge=0.0, lt=1.0)
    weight_decay: float = Field(0.0, ge=0.0)
    adam_beta1: float = Field(0.9, ge=0.0, lt=1.0)
    adam_beta2: float = Field(0.999, ge=0.0, lt=1.0)
    max_grad_norm: float = Field(1.0, gt=0.0)
    seed: int = Field(42, ge=0)

    # bfloat16 computes in bfloat16 and keeps float32 master weights.
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    attn_implementation: Literal["sdpa", "flash_attention_2"] | None = None
    gradient_checkpointing: bool = True
    # Keeps what the backward pass needs in host memory.
    activation_offload: bool = False
    # For models with random vision weights (the toy's) only: the paper's tower is frozen.
    train_vision: bool = False

    # Processes that load and tokenize ahead, per rank; 0 does it in the training process.
    num_workers: int = Field(4, ge=0)
    # Encoded samples kept in memory per process, so that later epochs neither tokenize nor decode
    # again; only without workers.
    encoded_cache_mib: int = Field(0, ge=0)

    logging_steps: int = Field(1, ge=1)
    report_to: Literal["none", "wandb"] = "none"
    save_steps: int = Field(100, ge=1)
    # At least two, so that one whole checkpoint stands while the next is being written.
    keep_checkpoints: int = Field(2, ge=2)
    # `proact preflight` refuses a forecast above it.
    gpu_memory_gib: float = Field(80.0, gt=0.0)

    @field_validator("min_lr")
    @classmethod
    def _ends_below_its_peak(cls, value: float, info: ValidationInfo) -> float:
        peak = info.data.get("learning_rate")
        if peak is not None and value > peak:
            raise ValueError(f"at most learning_rate, {peak}")
        return value

    @field_validator("max_context_tokens")
    @classmethod
    def _holds_one_frame(cls, value: int, info: ValidationInfo) -> int:
        if "max_pixels" in info.data:
            check_holds_one_turn(value, info.data["max_pixels"])
        return value

    @field_validator("micro_batch_size")
    @classmethod
    def _divides_the_batch(cls, value: int, info: ValidationInfo) -> int:
        if "batch_size" in info.data and info.data["batch_size"] % value:
            raise ValueError(f"a divisor of batch_size, {info.data['batch_size']}")
        return value

    @field_validator("encoded_cache_mib")
    @classmethod
    def _has_no_workers(cls, value: int, info: ValidationInfo) -> int:
        if value and info.data.get("num_workers"):
            raise ValueError("0 unless num_workers is 0, since workers keep no cache in common")
        return value
