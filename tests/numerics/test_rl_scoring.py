"""From completions to rows on a real tokenizer, and which decisions a step takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from proact_train.model.conversation import encode_answer
from proact_train.model.load import load_processor
from proact_train.rewards import RewardOptions, RewardWeights
from proact_train.rl.batch import DecisionOrder, SlotLoader
from proact_train.rl.rows import Completion
from proact_train.rl.scoring import Scorer, score_groups
from tests.rl_data import build_decisions
from tests.sft_data import SIDE_PX, build_inputs


class NoScoreForCups:
    """A judge whose every answer about "cup" cannot be had."""

    name = "test"

    def score(self, pairs):
        return [None if "cup" in text else 4 for text, _ in pairs]


@pytest.fixture(scope="module")
def scorer(tmp_path_factory) -> Scorer:
    model, _ = build_inputs(tmp_path_factory.mktemp("scoring"), 4)
    return Scorer(
        load_processor(model, SIDE_PX**2),
        NoScoreForCups(),
        lambda text: len(text.split()),
        RewardOptions(),
        RewardWeights(),
    )


def completion(scorer: Scorer, text: str) -> Completion:
    ids = tuple(encode_answer(scorer.processor, text))
    return Completion(ids, (-1.0,) * len(ids), is_truncated=False)


def test_groups_by_hand(scorer: Scorer, tmp_path):
    decision = replace(
        build_decisions(tmp_path, 1)[0],
        kind="event",
        gold_thought="red hand",
        gold_answer="<Silence>",
        history_thoughts=[],
    )
    texts = [
        "<think>red hand</think><Silence>",  # 1 + 1 + 1 + 1 + (1 + 1)
        "<think>red hand</think><Attention>",  # content: the paper's 0.40
        "<think>cup</think><Silence>",  # the judge has no score
        "no grammar",  # response only
    ]
    (rows,) = score_groups(scorer, [decision], [[completion(scorer, text) for text in texts]])
    assert [row.text for row in rows] == texts
    assert [row.action for row in rows] == ["silence", "alert", "silence", "invalid"]
    assert rows[0].rewards.total == pytest.approx(6.0)
    assert rows[0].rewards.content_and_semantic == pytest.approx(2.0)
    assert rows[1].rewards.content == pytest.approx(0.4, abs=0.01)
    assert rows[1].rewards.total == pytest.approx(5.0 + rows[1].rewards.content)
    assert rows[2].rewards.total is None
    assert rows[2].advantage == 0.0
    assert rows[3].rewards.parts["format"] == 0.0
    assert sum(row.advantage for row in rows) == pytest.approx(0.0)
    assert rows[0].advantage > rows[1].advantage > rows[3].advantage
    assert rows[0].num_thought_tokens == 2


def test_every_decision_comes_once_an_epoch():
    order = DecisionOrder(num_decisions=6, decisions_per_step=4, seed=1)
    seen = [slot.decision_idx for generation in range(3) for slot in order.generation(generation)]
    assert Counter(seen) == dict.fromkeys(range(6), 2)
    assert sorted(seen[:6]) == list(range(6))
    assert order.generation(1) == DecisionOrder(6, 4, 1).generation(1)
    assert order.generation(1) != DecisionOrder(6, 4, 2).generation(1)
    seeds = [slot.seed for generation in range(3) for slot in order.generation(generation)]
    assert len(set(seeds)) == 12


def test_ranks_share_a_generation_and_a_resumed_loader_begins_at_its_step():
    order = DecisionOrder(num_decisions=7, decisions_per_step=4, seed=0)

    def slots(rank: int, num_ranks: int, step: int = 0) -> list:
        return list(SlotLoader(order, rank, num_ranks, 5, 1, lambda: step))

    whole = slots(0, 1)
    assert len(whole) == len(SlotLoader(order, 0, 1, 5, 1, int)) == 20
    first, second = slots(0, 2), slots(1, 2)
    for step in range(5):
        part = slice(2 * step, 2 * step + 2)
        assert first[part] + second[part] == whole[4 * step : 4 * step + 4]
    assert slots(0, 1, step=3) == whole[12:]


def test_a_generation_serves_num_iterations_steps():
    order = DecisionOrder(num_decisions=9, decisions_per_step=2, seed=0)
    slots = list(SlotLoader(order, 0, 1, 4, 2, int))
    assert slots[0:2] == slots[2:4] == order.generation(0)
    assert slots[4:6] == slots[6:8] == order.generation(1)
