"""GSPO's value and gradient equal trl's own GRPOTrainer on the same tensors.

The trainer is really constructed and its real `compute_loss` is called; nothing of it is copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from proact_train.rl.objective import group_advantages, gspo_row_losses, is_zero_variance

EPSILON, BETA, NUM_GENERATIONS = 0.2, 0.04, 4


@pytest.fixture(scope="module")
def trainer(tmp_path_factory) -> GRPOTrainer:
    torch.manual_seed(0)
    vocab = {
        word: idx for idx, word in enumerate(["<pad>", "<eos>", *(f"w{i}" for i in range(30))])
    }
    tokenizer = Tokenizer(WordLevel(vocab, unk_token="<pad>"))
    tokenizer.pre_tokenizer = Whitespace()
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            initializer_range=0.5,
        )
    )
    folder = tmp_path_factory.mktemp("trl")
    model.save_pretrained(folder / "base")  # trl loads its reference from the model's path
    config = GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        report_to=[],
        per_device_train_batch_size=8,
        num_generations=NUM_GENERATIONS,
        beta=BETA,
        epsilon=EPSILON,
        loss_type="grpo",
        importance_sampling_level="sequence",
        use_bias_correction_kl=False,
        scale_rewards="group",
    )
    trainer = GRPOTrainer(
        Qwen2ForCausalLM.from_pretrained(folder / "base"),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["w1"]}),
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>"
        ),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer


@dataclass(frozen=True)
class Case:
    """Two groups' rewards, and how far old log-probs lie from the policy's (None: same weights)."""

    rewards: tuple[float, ...]
    old_shift: float | None
    lengths: tuple[int, ...] = (7, 3, 1, 5, 6, 2, 7, 4)


NAN = float("nan")
CASES = {
    "same weights, unequal lengths": Case((3.0, 1.0, 2.5, 0.0, 1.0, 1.5, 4.0, 2.0), None),
    "small drift": Case((3.0, 1.0, 2.5, 0.0, 1.0, 1.5, 4.0, 2.0), 0.05),
    "clipping active": Case((3.0, 1.0, 2.5, 0.0, 1.0, 1.5, 4.0, 2.0), 0.6),
    "unscored rows": Case((3.0, NAN, 2.5, 0.0, NAN, NAN, 4.0, 2.0), 0.3),
    "one scored row": Case((3.0, NAN, NAN, NAN, 1.0, 1.5, 4.0, 2.0), 0.3),
    "unscored group": Case((NAN, NAN, NAN, NAN, 1.0, 1.5, 4.0, 2.0), 0.3),
    "no contrast": Case((2.0, 2.0, 2.0, 2.0, 1.0, 1.5, 4.0, 2.0), 0.3),
}


def policy_logps(trainer: GRPOTrainer, inputs: dict[str, Tensor]) -> Tensor:
    logps, _, _ = trainer._get_per_token_logps_and_entropies(
        trainer.model,
        torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
        torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
        inputs["completion_ids"].shape[1],
    )
    return logps


def make_inputs(trainer: GRPOTrainer, case: Case) -> dict[str, Tensor]:
    """The tensors that GRPOTrainer's own rollout would hand to its loss."""
    generator = torch.Generator().manual_seed(1)
    rows, width = len(case.lengths), max(case.lengths)
    mask = (torch.arange(width)[None] < torch.tensor(case.lengths)[:, None]).long()
    inputs = {
        "prompt_ids": torch.randint(2, 32, (rows, 5), generator=generator),
        "prompt_mask": torch.ones(rows, 5, dtype=torch.long),
        "completion_ids": torch.randint(2, 32, (rows, width), generator=generator) * mask,
        "completion_mask": mask,
        "num_items_in_batch": mask.sum(),
    }
    with torch.no_grad():
        current = policy_logps(trainer, inputs)
    inputs["ref_per_token_logps"] = current + 0.3 * torch.randn(rows, width, generator=generator)
    if case.old_shift is not None:
        shift = torch.randn(rows, 1, generator=generator) + torch.randn(
            rows, width, generator=generator
        )
        inputs["old_per_token_logps"] = current + case.old_shift * shift
    inputs["advantages"] = group_advantages(
        torch.tensor(case.rewards).view(-1, NUM_GENERATIONS)
    ).flatten()
    return inputs


def gradients(model: torch.nn.Module, loss: Tensor) -> Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_equal_grpo_trainer(trainer: GRPOTrainer, name: str):
    inputs = make_inputs(trainer, CASES[name])
    theirs = trainer.compute_loss(trainer.model, inputs)
    their_gradient = gradients(trainer.model, theirs)

    rows = gspo_row_losses(
        policy_logps(trainer, inputs),
        inputs["completion_mask"],
        inputs["advantages"],
        epsilon=EPSILON,
        beta=BETA,
        old_logps=inputs.get("old_per_token_logps"),
        ref_logps=inputs["ref_per_token_logps"],
    )
    ours = rows.loss.mean()
    our_gradient = gradients(trainer.model, ours)

    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-4, atol=1e-6)
    metrics = trainer._metrics["train"]
    assert rows.kl.mean().item() > 0
    assert rows.is_clipped.float().mean().item() == pytest.approx(
        metrics["clip_ratio/region_mean"][-1]
    )
    if name == "clipping active":
        assert rows.is_clipped.any()
    if name == "same weights, unequal lengths":
        assert not rows.is_clipped.any()
        torch.testing.assert_close(rows.ratio, torch.ones(8))


@pytest.mark.parametrize("name", CASES)
def test_advantages_equal_grpo_trainers_rule(trainer: GRPOTrainer, name: str):
    """`_generate_and_score_completions` cannot be called without its rollout; its formula can."""
    from trl.trainer.utils import nanstd

    rewards = torch.tensor(CASES[name].rewards).view(-1, NUM_GENERATIONS)
    mean = torch.nanmean(rewards, dim=1, keepdim=True)
    theirs = (rewards - mean) / (nanstd(rewards, dim=1)[:, None] + 1e-4)
    torch.testing.assert_close(group_advantages(rewards), theirs.nan_to_num(nan=0.0))


def test_advantages_by_hand():
    rewards = torch.tensor([[1.0, 2.0, 3.0, NAN], [5.0, NAN, NAN, NAN], [2.0, 2.0, 2.0, 2.0]])
    expected = torch.tensor([[-1.0, 0.0, 1.0, 0.0], [0.0] * 4, [0.0] * 4]) / (1 + 1e-4)
    torch.testing.assert_close(group_advantages(rewards), expected)
    assert is_zero_variance(rewards).tolist() == [False, True, True]
    assert is_zero_variance(torch.full((1, 3), NAN)).tolist() == [True]


def test_advantages_do_not_depend_on_the_order_of_a_group():
    rewards = torch.tensor([[0.5, NAN, 3.0, 1.0, 2.0]])
    order = torch.tensor([3, 1, 4, 0, 2])
    torch.testing.assert_close(
        group_advantages(rewards[:, order]), group_advantages(rewards)[:, order]
    )


def test_a_row_by_hand():
    """Two tokens, ratio exp(0.3) = 1.34986 clipped at 1.2; A = 2; k3 of gaps 0.1 and -0.1."""
    policy = torch.tensor([[-1.0, -2.0, -9.0]], requires_grad=True)
    rows = gspo_row_losses(
        policy,
        torch.tensor([[1, 1, 0]]),
        torch.tensor([2.0]),
        epsilon=0.2,
        beta=0.5,
        old_logps=torch.tensor([[-1.2, -2.4, 7.0]]),
        ref_logps=torch.tensor([[-0.9, -2.1, torch.inf]]),
    )
    k3 = ((1.1051709 - 0.1 - 1) + (0.9048374 + 0.1 - 1)) / 2
    torch.testing.assert_close(rows.loss, torch.tensor([-2.4 + 0.5 * k3]))
    torch.testing.assert_close(rows.ratio, torch.tensor([1.3498588]))
    assert rows.is_clipped.tolist() == [True]


def test_a_row_without_tokens_contributes_nothing():
    policy = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    rows = gspo_row_losses(
        policy, torch.zeros(1, 2), torch.tensor([3.0]), 0.2, 0.1, None, policy.detach() - 1
    )
    assert rows.loss.tolist() == [0.0]
    rows.loss.sum().backward()
    assert policy.grad is not None
    assert policy.grad.abs().sum() == 0
