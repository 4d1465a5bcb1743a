"""Log-probs of a group's completions: the one function behind the old, reference and policy pass.

One row of the shared trunk (`model/trunk.py`) for each decision, padded into a rectangle for the
objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..model.trunk import Trunk, trunk_logprobs
from .rows import Completion


@dataclass(frozen=True)
class GroupLogps:
    """Of the tokens of a group's completions, right-padded with zeros.

    Attributes:
        logps: at the sampling temperature.
        entropies: of the next-token distributions, in nats, detached.
        mask: True on tokens.
    """

    logps: Float[Tensor, "rows tokens"]
    entropies: Float[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]


def group_logps(
    model: Any, trunk: Trunk, completions: Sequence[Completion], temperature: float
) -> GroupLogps:
    """Runs the (wrapped) model over one prompt and its completions; gradients as the caller set."""
    token_ids = [completion.token_ids for completion in completions]
    passed = trunk_logprobs(model, trunk, token_ids, temperature)
    mask = [torch.ones_like(logps, dtype=torch.bool) for logps in passed.logps]
    return GroupLogps(
        pad_sequence(passed.logps, batch_first=True),
        pad_sequence(passed.entropies, batch_first=True),
        pad_sequence(mask, batch_first=True),
    )
