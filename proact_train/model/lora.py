"""LoRA on the language model's linears only, and the proof that every trained tensor learns.

The vision tower never gets adapters: with reentrant checkpointing they stay without gradient,
silently.
"""

from __future__ import annotations

from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

TARGET_MODULES = (
    r".*language_model\.layers\.\d+\."
    r"(self_attn\.(q_proj|k_proj|v_proj|o_proj)|mlp\.(gate_proj|up_proj|down_proj))"
)


def add_lora(model: nn.Module, r: int, alpha: int, dropout: float = 0.0) -> PeftModel:
    """Adds a LoRA adapter to all linears of the language model; everything else is frozen.

    Args:
        r: rank (paper: 32).
        alpha: scale numerator; the update is multiplied by `alpha / r` (paper: 128).
        dropout: on the adapter's input; above 0 old and policy pass no longer agree.
    """
    config = LoraConfig(
        r=r,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=TARGET_MODULES,
        bias="none",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)  # type: ignore[arg-type,return-value]


def missing_gradients(model: nn.Module) -> list[str]:
    """Names of trainable tensors without a gradient; call after a backward, before the step.

    Under DeepSpeed gradients live in its partitions: a tensor there counts once
    `safe_get_full_grad` has something for it.
    """
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and not _has_gradient(parameter)
    ]


def _has_gradient(parameter: nn.Parameter) -> bool:
    if parameter.grad is not None:
        return True
    if hasattr(parameter, "ds_id") or hasattr(parameter, "_hp_mapping"):
        from deepspeed.utils import safe_get_full_grad

        return safe_get_full_grad(parameter) is not None
    return False
