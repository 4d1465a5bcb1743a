"""What a step logs: values by hand, the all-unscored step, the table."""

import pytest

from proact_train.rl.metrics import rollout_metrics, spread, table_row
from proact_train.rl.rows import Rewards, Row


def row(total, gold="<Silence>", action="silence", **changes) -> Row:
    parts = {"format": 1.0, "semantic": None if total is None else 0.5, "response": total}
    rewards = Rewards(parts, content=total, total=total)
    values = {
        "decision_id": "d",
        "kind": "event",
        "domain": "object",
        "gold_answer": gold,
        "text": "<think>t</think><Silence>",
        "action": action,
        "num_tokens": 10,
        "num_thought_tokens": 4,
        "is_truncated": False,
        "rewards": rewards,
    }
    return Row(**(values | changes))


def test_rewards_by_name_class_and_kind():
    rows = [
        row(1.0),
        row(3.0, action="invalid", num_tokens=20, is_truncated=True),
        row(2.0, gold="<Attention>", action="alert"),
        row(2.0, gold="<Attention>", action="silence"),
    ]
    metrics = rollout_metrics(rows, num_generations=2)
    assert metrics["reward"] == 2.0
    assert metrics["reward/content_and_semantic"] == 2.5
    assert metrics["class/silence/reward"] == 2.0
    assert metrics["class/alert/accuracy"] == 0.5
    assert metrics["class/silence/accuracy"] == 0.5
    assert metrics["class/reply/share"] == 0.0
    assert "class/reply/reward" not in metrics
    assert metrics["kind/event/reward"] == 2.0
    assert metrics["groups/zero_variance"] == 0.5
    assert metrics["completions/truncated"] == 0.25
    assert metrics["completions/invalid"] == 0.25
    assert metrics["completions/mean_length"] == 12.5
    assert metrics["completions/max_length"] == 20.0


def test_unscored_is_counted_and_never_zero():
    metrics = rollout_metrics([row(None), row(None), row(1.0), row(None)], num_generations=2)
    assert metrics["reward"] == 1.0
    assert metrics["rows/unscored"] == 0.75
    assert metrics["groups/unscored"] == 0.5
    assert metrics["groups/zero_variance"] == 0.5
    everything = rollout_metrics([row(None), row(None)], num_generations=2)
    assert "reward" not in everything
    assert everything["reward/format"] == 1.0


def test_table_row_names_every_reward():
    line = table_row(row(1.5, gold="Turn it off.", action="reply"), step=3)
    assert line["step"] == 3
    assert line["class"] == "reply"
    assert line["reward/format"] == 1.0
    assert line["reward"] == 1.5


@pytest.mark.parametrize(
    ("wanted", "expected"), [(0, []), (1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (99, range(10))]
)
def test_spread(wanted, expected):
    rows = [row(float(idx)) for idx in range(10)]
    assert [int(one.rewards.total) for one in spread(rows, wanted)] == list(expected)
