"""GSPO's objective (Zheng et al. 2025, arXiv 2507.18071) as pure functions of tensors.

Lives here: advantages inside a group and the loss of each row. Not here: where log-probs come from
(`passes.py`), what a completion earns (`scoring.py`), how ranks are averaged (`trainer.py`).

Named deviations from the paper: the KL term against a reference (the paper's eq. 5 has none; ours
is GRPO's k3 estimator, Shao et al. 2024 eq. 4) and the 1e-4 under the advantage's fraction. With
both, value and gradient are those of trl's GRPOTrainer at `loss_type="grpo"`,
`importance_sampling_level="sequence"`, `use_bias_correction_kl=False`, `scale_rewards="group"`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ADVANTAGE_EPSILON = 1e-4


@dataclass(frozen=True)
class RowLosses:
    """What each completion contributes; all but `loss` are detached.

    Attributes:
        loss: to be minimised; summed over rows and divided by the number of all rows.
        ratio: the sequence's importance ratio `s_i`.
        kl: mean over tokens of k3 against the reference; zero without a reference.
        is_clipped: whether the clipped branch of the minimum is the active one.
    """

    loss: Float[Tensor, " rows"]
    ratio: Float[Tensor, " rows"]
    kl: Float[Tensor, " rows"]
    is_clipped: Bool[Tensor, " rows"]


def group_advantages(
    rewards: Float[Tensor, "groups generations"],
) -> Float[Tensor, "groups generations"]:
    """Advantages inside each group (eq. 6), `(R - mean R) / (std R + 1e-4)`, sample std (n - 1).

    Args:
        rewards: NaN marks an unscored completion, which leaves its group.

    Returns:
        Advantages; 0 for unscored completions and where fewer than two of a group are scored.
    """
    is_scored = ~rewards.isnan()
    num_scored = is_scored.sum(dim=1, keepdim=True)
    known = rewards.nan_to_num(nan=0.0)
    mean = known.sum(dim=1, keepdim=True) / num_scored.clamp(min=1)
    deviation = torch.where(is_scored, known - mean, torch.zeros_like(known))
    variance = deviation.square().sum(dim=1, keepdim=True) / (num_scored - 1).clamp(min=1)
    return deviation / (variance.sqrt() + ADVANTAGE_EPSILON)


def is_zero_variance(
    rewards: Float[Tensor, "groups generations"],
) -> Bool[Tensor, " groups"]:
    """Groups that teach nothing: all scored rewards are equal, or fewer than two are scored."""
    top = rewards.nan_to_num(nan=-torch.inf).amax(dim=1)
    bottom = rewards.nan_to_num(nan=torch.inf).amin(dim=1)
    return top - bottom <= 1e-8


def gspo_row_losses(
    policy_logps: Float[Tensor, "rows tokens"],
    completion_mask: Bool[Tensor, "rows tokens"] | Int[Tensor, "rows tokens"],
    advantages: Float[Tensor, " rows"],
    epsilon: float,
    beta: float,
    old_logps: Float[Tensor, "rows tokens"] | None = None,
    ref_logps: Float[Tensor, "rows tokens"] | None = None,
) -> RowLosses:
    """The negated summands of GSPO's objective.

    `s_i = exp(mean_t (p - old))` (eq. 7);
    `-min(s_i A_i, clip(s_i, 1 - eps, 1 + eps) A_i)` (eq. 5) `+ beta mean_t k3`,
    `k3 = exp(ref - p) - (ref - p) - 1`.

    Args:
        policy_logps: log-probs of the sampled tokens, with gradient, at the sampling temperature.
        completion_mask: 1 on the completion's tokens, its `<|im_end|>` included. A row without a
            token contributes 0 and still counts as a row.
        advantages: 0 for unscored rows, which keep the KL term.
        epsilon: half width of the clip range around 1.
        beta: weight of the KL term; with 0, `ref_logps` is not needed.
        old_logps: under the weights that sampled; None where these are the policy's weights, one
            optimiser step a generation: the ratio is then 1 and only its gradient remains.
        ref_logps: with the adapter off.
    """
    assert beta == 0.0 or ref_logps is not None, "beta > 0 needs the reference's log-probs"
    mask = completion_mask.to(policy_logps.dtype)
    num_tokens = mask.sum(dim=1).clamp(min=1.0)

    def token_mean(values: Float[Tensor, "rows tokens"]) -> Float[Tensor, " rows"]:
        return torch.where(mask > 0, values, torch.zeros_like(values)).sum(dim=1) / num_tokens

    old = policy_logps.detach() if old_logps is None else old_logps
    ratio = torch.exp(token_mean(policy_logps - old))
    clipped_ratio = ratio.clamp(1.0 - epsilon, 1.0 + epsilon)
    has_tokens = (mask.sum(dim=1) > 0).to(policy_logps.dtype)
    loss = -torch.minimum(ratio * advantages, clipped_ratio * advantages) * has_tokens
    kl = torch.zeros_like(loss)
    if ref_logps is not None:
        gap = ref_logps - policy_logps
        kl = token_mean(torch.exp(gap) - gap - 1.0)
        loss = loss + beta * kl
    with torch.no_grad():
        is_clipped = ((ratio < 1.0 - epsilon) & (advantages < 0)) | (
            (ratio > 1.0 + epsilon) & (advantages > 0)
        )
    return RowLosses(loss, ratio.detach(), kl.detach(), is_clipped)
