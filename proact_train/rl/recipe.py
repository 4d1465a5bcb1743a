"""What a recipe of stage 2 may say. No torch here: `proact preflight` reads it in a blink.

Names that users of trl know keep GRPOConfig's spelling and meaning (`num_generations`, `beta`,
`epsilon`, `num_iterations`, `max_completion_length`, …).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from ..core.recipe import Recipe
from ..stream.resize import TOKEN_SIDE_PX, check_holds_one_turn, tokens_per_turn

# A run may resume under another value of these: none changes a number that is trained.
KEYS_FREE_ON_RESUME = frozenset(
    {"report_to", "save_steps", "keep_checkpoints", "log_completions", "gpu_memory_gib"}
    | {"output_dir", "run_name", "gradient_checkpointing"}
)

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0)]


class LoraSettings(Recipe):
    """The adapter, on the language model's linear layers only."""

    r: int = Field(default=32, ge=1)
    alpha: int = Field(default=128, ge=1)


class RewardWeights(Recipe):
    """One weight for each reward; the paper's are all 1."""

    format: Weight = 1.0
    length: Weight = 1.0
    history: Weight = 1.0
    semantic: Weight = 1.0
    response: Weight = 1.0


class RewardSettings(Recipe):
    """The five rewards (paper 4.2) and the known holes of their formulas, closed by option."""

    weights: RewardWeights = Field(default_factory=RewardWeights)
    # Who gives `sim_sem`: `similarity` is the embedded MiniLM with rules, never an LLM.
    judge: Literal["similarity"] = "similarity"
    length_unit: Literal["tokens", "words", "characters"] = "tokens"
    # A thought shorter than this fails the format; 0 is the paper's rule.
    min_thought_tokens: int = Field(default=0, ge=0)
    # `<Attention>` against `<Silence>` earns nothing instead of 0.40.
    exact_markers: bool = False
    # An answer that breaks the grammar earns no response points.
    response_needs_format: bool = False


class EvaluationSettings(Recipe):
    """The paired measurement on held-out decisions, before and after training."""

    # Decisions of the held-out file, spread evenly over it; 0 turns the measurement off.
    num_decisions: int = Field(default=0, ge=0)
    num_generations: int = Field(default=8, ge=1)
    seed: int = 1234


class RlRecipe(Recipe):
    """GSPO with LoRA on one file of decisions."""

    # A Hugging Face folder or the run folder of stage 1.
    model: str = Field(min_length=1)
    train_decisions: str = Field(min_length=1)
    held_out_decisions: str | None = None
    # The run folder; a run that was stopped goes on from its newest complete checkpoint.
    output_dir: str = Field(min_length=1)
    # How the run is called in wandb; None takes the run folder's name.
    run_name: str | None = None

    # What is seen. One max_pixels a stage, for training, rollout and evaluation alike.
    max_pixels: int = Field(200_704, ge=TOKEN_SIDE_PX**2)
    # Prompt and completion together. A longer decision is refused at the start; `proact build rl`
    # drops its whole oldest turns instead.
    max_context_tokens: int = Field(20_000, ge=1)
    with_thought: bool = True

    # Sampling. Log-probs of every pass are taken at this temperature.
    num_generations: int = Field(16, ge=2)
    temperature: float = Field(1.0, gt=0.0)
    # Only 1: what is cut from sampling would still count in the log-probs.
    top_p: float = Field(1.0, ge=1.0, le=1.0)
    max_completion_length: int = Field(128, ge=2)
    # Truncated completions then contribute nothing; by default they count as they are.
    mask_truncated_completions: bool = False

    # The objective (DESIGN 7).
    beta: float = Field(0.001, ge=0.0)
    epsilon: float = Field(0.2, gt=0.0, lt=1.0)
    # Optimiser steps that use one generation; above 1 the old pass is made and clipping can act.
    num_iterations: int = Field(1, ge=1)
    rewards: RewardSettings = Field(default_factory=RewardSettings)

    # One optimiser step takes this many decisions, over all ranks, each with num_generations
    # completions. It must divide by the number of ranks.
    decisions_per_step: int = Field(4, ge=1)
    max_steps: int | None = Field(None, ge=1)
    num_train_epochs: int = Field(1, ge=1)

    lora: LoraSettings = Field(default_factory=LoraSettings)
    learning_rate: float = Field(1e-6, gt=0.0)
    lr_scheduler_type: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(0, ge=0)
    weight_decay: float = Field(0.0, ge=0.0)
    adam_beta1: float = Field(0.9, ge=0.0, lt=1.0)
    adam_beta2: float = Field(0.999, ge=0.0, lt=1.0)
    max_grad_norm: float = Field(1.0, gt=0.0)
    seed: int = Field(42, ge=0)

    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    attn_implementation: Literal["sdpa", "flash_attention_2"] | None = None
    gradient_checkpointing: bool = True

    save_steps: int = Field(50, ge=1)
    # At least two, so that one whole checkpoint stands while the next is being written.
    keep_checkpoints: int = Field(2, ge=2)
    report_to: Literal["none", "wandb"] = "none"
    # Completions a step in completions.jsonl; 0 keeps none.
    log_completions: int = Field(16, ge=0)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    # `proact preflight` refuses a forecast above it.
    gpu_memory_gib: float = Field(80.0, gt=0.0)

    @field_validator("max_context_tokens")
    @classmethod
    def _holds_one_frame(cls, value: int, info: ValidationInfo) -> int:
        if "max_pixels" in info.data:
            check_holds_one_turn(value, info.data["max_pixels"])
        return value

    @field_validator("max_completion_length")
    @classmethod
    def _leaves_room_for_a_frame(cls, value: int, info: ValidationInfo) -> int:
        if {"max_pixels", "max_context_tokens"} <= info.data.keys():
            room = info.data["max_context_tokens"] - tokens_per_turn(info.data["max_pixels"])
            if value > room:
                raise ValueError(
                    f"at most {room}, what one frame leaves of max_context_tokens "
                    f"{info.data['max_context_tokens']}"
                )
        return value

    @field_validator("save_steps")
    @classmethod
    def _saves_between_generations(cls, value: int, info: ValidationInfo) -> int:
        num_iterations = info.data.get("num_iterations", 1)
        if value % num_iterations:
            raise ValueError(
                f"a multiple of num_iterations {num_iterations}, since a generation that is half "
                "used is not saved"
            )
        return value

    @field_validator("evaluation")
    @classmethod
    def _has_held_out_decisions(
        cls, value: EvaluationSettings, info: ValidationInfo
    ) -> EvaluationSettings:
        if value.num_decisions and not info.data.get("held_out_decisions"):
            raise ValueError("0 decisions, since the recipe names no held_out_decisions")
        return value
