"""What a completion is worth, line by line. Read downward: each test is a line of the formula.

The judge here answers from a table and keeps what it was asked; lengths are counted in words.
"""

from __future__ import annotations

import difflib
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proact_train.core.errors import RecipeError
from proact_train.rewards import (
    RewardWeights,
    build_length_counter,
    decay,
    format_reward,
    history_reward,
    length_reward,
    response_reward,
    semantic_reward,
    sim_sem,
    sim_text,
    sum_parts,
    total_reward,
)

SILENCE, ATTENTION = "<Silence>", "<Attention>"


class TableJudge:
    """Scores by table, 4 for equal texts, else `default`; None is an outage."""

    name = "table"

    def __init__(self, default: int | None = 1):
        self.default, self.asked = default, []

    def score(self, pairs):
        self.asked.append(list(pairs))
        return [4 if text == gold else self.default for text, gold in pairs]


def count_words(text: str) -> int:
    return len(text.split())


def words(number: int) -> str:
    return " ".join(["word"] * number)


def reward(function, completion, judge=None, **row):
    """One completion's reward; a gold row of an event stream unless told otherwise."""
    gold = {"kind": "event", "gold_thought": "A pan stands on the stove.", "gold_answer": SILENCE}
    columns = {key: [value] for key, value in (gold | {"history_thoughts": []}).items()}
    options = {key: value for key, value in row.items() if key not in columns}
    columns |= {key: [value] for key, value in row.items() if key in columns}
    if function in (semantic_reward, response_reward, total_reward):
        options["judge"] = judge or TableJudge()
    (value,) = function(["prompt"], [completion], count_length=count_words, **columns, **options)
    return value


# sim_text(a, b) = 2M / (|a| + |b|)


@pytest.mark.parametrize(
    ("text", "gold", "expected"),
    [
        ("", "", 1.0),
        ("pan", "", 0.0),
        ("pan", "pan", 1.0),
        ("abcd", "bcde", 2 * 3 / 8),
        (ATTENTION, SILENCE, 2 * 4 / 20),  # "<", "e", "n", ">"
        ("tide", "diet", 0.25),  # the model's text first …
        ("diet", "tide", 0.50),  # … because the order matters
    ],
)
def test_sim_text_by_hand(text, gold, expected):
    assert sim_text(text, gold) == pytest.approx(expected)


def test_sim_text_of_long_texts_is_not_cut_by_difflibs_heuristic():
    gold = "ab" * 100
    assert difflib.SequenceMatcher(None, gold[1:], gold).ratio() == 0.0  # autojunk on
    assert sim_text(gold[1:], gold) == pytest.approx(0.9975, abs=1e-4)


@given(
    st.one_of(st.text(max_size=60), st.text("ab <>é", max_size=300)),
    st.one_of(st.text(max_size=60), st.text("ab <>é", max_size=300)),
)
def test_sim_text_equals_difflib(text, gold):
    expected = difflib.SequenceMatcher(None, text, gold, autojunk=False).ratio()
    assert sim_text(text, gold) == expected


# sim_sem = (judge - 1) / 3


@pytest.mark.parametrize(("score", "expected"), [(1, 0.0), (2, 1 / 3), (3, 2 / 3), (4, 1.0)])
def test_sim_sem(score, expected):
    assert sim_sem(score) == pytest.approx(expected)


# decay(L, lo, hi) = 1 - clip((L - lo) / (hi - lo), 0, 1)


@pytest.mark.parametrize(
    ("length", "expected"), [(0, 1.0), (16, 1.0), (17, 5 / 6), (19, 0.5), (22, 0.0), (90, 0.0)]
)
def test_decay_of_a_thought(length, expected):
    assert decay(length, 16, 22) == pytest.approx(expected)


# format: 1 if the answer parses, else 0, and then length, history and semantic are 0 too

BROKEN = {
    "no thought": SILENCE,
    "two thoughts": f"<think>a</think><think>b</think>{SILENCE}",
    "text before the thought": f"Well. <think>a</think>{SILENCE}",
    "unclosed thought": f"<think>a {SILENCE}",
    "marker in the thought": f"<think>so {ATTENTION}</think>{SILENCE}",
    "no answer": "<think>a</think>",
    "a sentence in an event stream": "<think>a</think>Look there.",
    "two markers": f"<think>a</think>{SILENCE}{ATTENTION}",
}


def test_format_of_a_legal_answer():
    assert reward(format_reward, f"<think>A pan.</think>{SILENCE}") == 1.0
    assert reward(format_reward, "<think>A pan.</think>Stir now.", kind="intent") == 1.0


@pytest.mark.parametrize("completion", BROKEN.values(), ids=BROKEN.keys())
def test_format_failure_zeroes_the_reasoning_and_asks_no_judge_about_it(completion):
    judge = TableJudge()
    for function in (format_reward, length_reward, history_reward, semantic_reward):
        assert reward(function, completion, judge) == 0.0
    reward(total_reward, completion, judge)
    assert judge.asked == []


# length: decay(L(thought), 16, 22)


@pytest.mark.parametrize(("length", "expected"), [(16, 1.0), (19, 0.5), (22, 0.0)])
def test_length(length, expected):
    assert reward(length_reward, f"<think>{words(length)}</think>{SILENCE}") == expected


# history: 1 - max over earlier thoughts of sim_text(thought, earlier); 1 without history


@pytest.mark.parametrize(
    ("history", "expected"),
    [([], 1.0), (["abcd"], 0.0), (["bcde"], 0.25), (["zzzz", "bcde", "cdef"], 0.25)],
)
def test_history(history, expected):
    value = reward(history_reward, f"<think>abcd</think>{SILENCE}", history_thoughts=history)
    assert value == expected


# semantic: (sim_text + sim_sem) / 2


@pytest.mark.parametrize(
    ("thought", "score", "expected"),
    [("abcd", 1, 1.0), ("bcde", 3, (0.75 + 2 / 3) / 2), ("zzzz", 1, 0.0), ("", 1, 0.0)],
)
def test_semantic(thought, score, expected):
    completion = f"<think>{thought}</think>{SILENCE}"
    value = reward(semantic_reward, completion, TableJudge(score), gold_thought="abcd")
    assert value == pytest.approx(expected)


# response: decay(L(answer), 26, 37) + content


@pytest.mark.parametrize(
    ("answer", "gold", "score", "expected"),
    [
        (SILENCE, SILENCE, 1, 1 + 1),  # a marker as gold: sim_text alone, at most 2
        (SILENCE, ATTENTION, 1, 1 + 2 * 4 / 20),
        ("Stir now.", "Stir now.", 1, 1 + 1 + 1),  # a sentence: sim_text + sim_sem, at most 3
        ("abcd", "bcde", 2, 1 + 0.75 + 1 / 3),
        (words(26), "zzz", 1, 1),
        (words(37), "zzz", 1, 0),
    ],
)
def test_response(answer, gold, score, expected):
    completion = f"<think>A pan.</think>{answer}"
    value = reward(response_reward, completion, TableJudge(score), kind="intent", gold_answer=gold)
    assert value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (f"<think>a</think><think>b</think> {SILENCE}", SILENCE),  # behind the last </think>
        (SILENCE, SILENCE),  # the whole text if there is none
    ],
)
def test_response_after_a_failure_reads_the_text_behind_the_thought(completion, answer):
    assert reward(response_reward, completion) == 1 + sim_text(answer, SILENCE)


def test_a_marker_as_gold_asks_no_judge():
    judge = TableJudge()
    reward(response_reward, f"<think>a</think>{ATTENTION}", judge)
    assert judge.asked == []


# R = (format + length + history + semantic) + response


def test_a_perfect_answer_earns_six_in_silence_and_seven_with_words():
    gold = "A pan stands on the stove."
    assert reward(total_reward, f"<think>{gold}</think>{SILENCE}") == 6.0
    intent = {"kind": "intent", "gold_answer": "Stir now."}
    assert reward(total_reward, f"<think>{gold}</think>Stir now.", **intent) == 7.0


def test_the_sum_by_hand():
    value = reward(
        total_reward,
        f"<think>abcd</think>{ATTENTION}",
        TableJudge(3),
        gold_thought="bcde",
        history_thoughts=["cdef"],  # "cd" matches: sim_text .5
    )
    assert value == pytest.approx(1 + 1 + 0.5 + (0.75 + 2 / 3) / 2 + (1 + 0.4))


def test_weights():
    weights = {"format": 0.0, "length": 2.0, "history": 0.0, "semantic": 0.0, "response": 0.5}
    value = reward(total_reward, f"<think>{words(19)}</think>{SILENCE}", weights=weights)
    assert value == 2.0 * 0.5 + 0.5 * 2.0


def test_without_thinking_the_response_is_all():
    judge = TableJudge()
    assert reward(total_reward, SILENCE, judge, with_thought=False) == 2.0
    assert judge.asked == []


# None = unscored: never 0, and the sum is None as soon as a part that it needs is None


def test_an_outage_is_none_and_makes_the_sum_none():
    outage = TableJudge(None)
    completion = f"<think>A pan.</think>{SILENCE}"
    assert reward(semantic_reward, completion, outage) is None
    assert reward(total_reward, completion, outage) is None
    intent = {"kind": "intent", "gold_answer": "Stir now."}
    assert reward(response_reward, "<think>A.</think>Stir.", outage, **intent) is None


def test_a_part_of_weight_zero_is_not_needed_and_not_asked_for():
    outage = TableJudge(None)
    weights = RewardWeights(semantic=0.0)
    completion = f"<think>A pan.</think>{SILENCE}"
    assert reward(total_reward, completion, outage, weights=weights) == 5.0
    assert outage.asked == []


def test_an_outage_leaves_the_other_rows_alone():
    values = total_reward(
        ["p", "p"],
        [f"<think>A pan.</think>{SILENCE}", f"<think>gold</think>{SILENCE}"],
        kind=["event", "event"],
        history_thoughts=[[], []],
        gold_thought=["gold", "gold"],
        gold_answer=[SILENCE, SILENCE],
        count_length=count_words,
        judge=TableJudge(None),
    )
    assert values == [None, 6.0]


def test_sum_of_nothing_and_of_all_unscored():
    assert sum_parts({"format": [], "semantic": []}, RewardWeights()) == []
    assert sum_parts({"format": [1.0], "semantic": [None]}, RewardWeights()) == [None]


# The known holes of the paper's formulas, and the options that close them


def test_hole_an_empty_thought_earns_three_of_four_reasoning_points():
    completion = f"<think></think>{SILENCE}"
    assert reward(total_reward, completion) == 3 + 2
    assert reward(total_reward, completion, min_thought_tokens=4) == 0 + 2


def test_min_thought_tokens_counts_in_the_length_unit():
    completion = f"<think>{words(4)}</think>{SILENCE}"
    assert reward(format_reward, completion, min_thought_tokens=4) == 1.0
    assert reward(format_reward, completion, min_thought_tokens=5) == 0.0


def test_hole_the_wrong_marker_earns_forty_percent():
    completion = f"<think>a</think>{ATTENTION}"
    assert reward(response_reward, completion) == pytest.approx(1 + 0.40)
    assert reward(response_reward, completion, exact_markers=True) == 1 + 0
    right = f"<think>a</think>{SILENCE}"
    assert reward(response_reward, right, exact_markers=True) == 1 + 1


def test_hole_an_invalid_answer_earns_response_points():
    judge = TableJudge()
    intent = {"kind": "intent", "gold_answer": "Stir now."}
    assert reward(response_reward, "Stir now.", judge, **intent) == 3.0
    closed = {"response_needs_format": True, **intent}
    assert reward(response_reward, "Stir now.", TableJudge(), **closed) == 0.0
    assert reward(total_reward, "Stir now.", judge := TableJudge(), **closed) == 0.0
    assert judge.asked == []


# How trl calls it


def test_conversational_completions_and_trls_extra_arguments():
    as_text = f"<think>A pan.</think>{SILENCE}"
    typed = [{"role": "assistant", "content": [{"type": "text", "text": as_text}]}]
    plain = [{"role": "assistant", "content": as_text}]
    bound = partial(total_reward, count_length=count_words, judge=TableJudge())
    values = bound(
        prompts=["p"] * 3,
        completions=[as_text, plain, typed],
        completion_ids=[[1], [1], [1]],
        kind=["event"] * 3,
        history_thoughts=[[]] * 3,
        gold_thought=["A pan."] * 3,
        gold_answer=[SILENCE] * 3,
        trainer_state=object(),
        log_metric=print,
    )
    assert values == [6.0, 6.0, 6.0]


def test_a_batch_asks_the_judge_once_and_each_pair_once():
    judge = TableJudge()
    total_reward(
        ["p"] * 4,
        ["<think>a</think>Stir."] * 3 + ["<think>b</think>Stir."],
        kind=["intent"] * 4,
        history_thoughts=[[]] * 4,
        gold_thought=["a gold"] * 4,
        gold_answer=["Stir now."] * 4,
        count_length=count_words,
        judge=judge,
    )
    assert judge.asked == [[("a", "a gold"), ("Stir.", "Stir now."), ("b", "a gold")]]


def test_empty_batch():
    columns = {"kind": [], "gold_thought": [], "gold_answer": [], "history_thoughts": []}
    assert total_reward([], [], count_length=len, judge=TableJudge(), **columns) == []


def test_a_misspelt_option_is_refused():
    with pytest.raises(TypeError, match="exact_marker"):
        reward(response_reward, SILENCE, exact_marker=True)


def test_length_units():
    assert build_length_counter("words")(" a  pan\n") == 2
    assert build_length_counter("characters")("a pan") == 5
    assert build_length_counter("tokens", count_tokens=lambda text: 7)("a pan") == 7
    with pytest.raises(RecipeError, match="tokens, words or characters"):
        build_length_counter("bytes")  # type: ignore[arg-type]
