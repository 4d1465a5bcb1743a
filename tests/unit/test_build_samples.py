"""Streams become SFT samples and RL decisions: budgets, weights, picks and drops."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from data_builders.rl import PLACES, RlOptions, build_rl, pick_turns
from data_builders.sft import SftOptions, build_sft
from data_builders.turns import cap_thought, load_token_counter
from proact_train.core.contracts import load_decisions, load_samples
from proact_train.core.errors import RunError
from proact_train.core.types import Interval, Query, Source, Stream, Video
from proact_train.stream.grammar import render

from .clips import make_clip


def count_words(text: str) -> int:
    return len(text.split())


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    clip = make_clip(tmp_path / "a.mp4", range(10), Fraction(1, 1), rate=1)
    return Stream(
        id="a",
        video=Video(str(clip), 10.0),
        kind="event",
        domain="object",
        source=Source("made", "train", "CC0"),
        query=(Query(0.0, "Alert me when the cup shows."),),
        intervals=(Interval(3.0, 6.0),),
        thoughts={idx: f"frame {idx} seen" for idx in range(10)},
    )


def answers_of(sample) -> list[str]:
    return [m["content"][0]["text"] for m in sample.messages if m["role"] == "assistant"]


def test_a_sample_supervises_every_turn(stream: Stream, tmp_path: Path):
    build_sft([stream], tmp_path / "out", count_words, SftOptions())
    (sample,) = load_samples(tmp_path / "out/samples.jsonl")
    assert len(sample.images) == 10
    assert all(Path(image).is_file() for image in sample.images)
    expected = ["<Attention>" if idx in (3, 4, 5) else "<Silence>" for idx in range(10)]
    assert answers_of(sample) == [render(f"frame {i} seen", a) for i, a in enumerate(expected)]
    assert not any("loss_weight" in message for message in sample.messages)


def test_balanced_classes_weigh_the_same(stream: Stream, tmp_path: Path):
    build_sft([stream], tmp_path / "out", count_words, SftOptions(balance_silence=True))
    (sample,) = load_samples(tmp_path / "out/samples.jsonl")
    weights = [m["loss_weight"] for m in sample.messages if m["role"] == "assistant"]
    assert sum(weights) == pytest.approx(10)
    assert sum(weights[3:6]) == pytest.approx(5)
    quiet = replace(stream, intervals=())
    build_sft([quiet], tmp_path / "quiet", count_words, SftOptions(balance_silence=True))
    (sample,) = load_samples(tmp_path / "quiet/samples.jsonl")
    assert {m["loss_weight"] for m in sample.messages if m["role"] == "assistant"} == {1.0}


def test_the_budget_drops_whole_turns_from_the_start(stream: Stream, tmp_path: Path):
    report = build_sft([stream], tmp_path / "out", count_words, SftOptions(max_context_tokens=90))
    (sample,) = load_samples(tmp_path / "out/samples.jsonl")
    dropped = 10 - len(sample.images)
    assert 0 < dropped < 10
    assert report.notes["turns dropped from the start to fit the token budget"] == dropped
    assert Path(sample.images[0]).name == f"{dropped:06d}.jpg"
    assert sample.messages[1]["content"][0]["text"].startswith("Alert me when the cup shows.")
    one_more = SftOptions(max_context_tokens=40)
    report = build_sft([stream], tmp_path / "none", count_words, one_more)
    assert [drop.reason for drop in report.drops] == ["not one turn fits the token budget"]


def test_thoughts_are_capped_by_whole_words():
    assert cap_thought("a b c d", 3, count_words) == "a b c"
    assert cap_thought("", 3, count_words) == ""
    assert cap_thought("abcdefgh", 3, len) == ""


def test_missing_thoughts_and_broken_videos_are_counted_drops(stream: Stream, tmp_path: Path):
    bad = tmp_path / "bad.mp4"
    bad.write_bytes((tmp_path / "a.mp4").read_bytes()[:400])
    streams = [
        replace(stream, id="no-thoughts", thoughts=None),
        replace(stream, id="marker", thoughts={**(stream.thoughts or {}), 2: "it is <Silence>"}),
        replace(stream, id="broken", video=Video(str(bad), 10.0)),
        stream,
    ]
    report = build_sft(streams, tmp_path / "out", count_words, SftOptions())
    assert report.num_streams == 1
    assert [drop.where for drop in report.drops] == ["no-thoughts", "marker", "broken"]
    assert not (tmp_path / "out/images/broken").exists()


def test_picks_cover_every_place_and_follow_the_seed(stream: Stream):
    picked = pick_turns(stream, 4, seed=0)
    assert {3: "onset", 6: "end"}.items() <= picked.items()
    assert sorted(picked.values()) == sorted(PLACES)
    assert pick_turns(stream, 4, seed=0) == picked
    assert any(pick_turns(stream, 4, seed) != picked for seed in range(1, 6))
    assert sorted(pick_turns(stream, 99, seed=0)) == list(range(10))
    late = replace(stream, query=(Query(5.0, "Alert me."),))
    assert sorted(pick_turns(late, 99, seed=0)) == list(range(5, 10))
    assert set(pick_turns(replace(stream, intervals=()), 3, 0).values()) == {"silent"}


def test_decisions_share_one_trunk(stream: Stream, tmp_path: Path):
    build_rl([stream], tmp_path / "out", count_words, RlOptions())
    decisions = load_decisions(tmp_path / "out/decisions.jsonl")
    assert len(decisions) == 4
    last = decisions[-1]
    for decision in decisions:
        assert decision.prompt == last.prompt[: len(decision.prompt)]
        assert len(decision.images) == decision.turn_idx + 1
        assert len(decision.history_thoughts) == decision.turn_idx
        inside = 3 <= decision.turn_idx < 6
        assert decision.gold_answer == ("<Attention>" if inside else "<Silence>")
        assert decision.gold_thought == f"frame {decision.turn_idx} seen"


def test_decisions_before_the_kept_turns_are_dropped_and_counted(stream: Stream, tmp_path: Path):
    options = RlOptions(decisions_per_stream=10, max_context_tokens=90)
    report = build_rl([stream], tmp_path / "out", count_words, options)
    decisions = load_decisions(tmp_path / "out/decisions.jsonl")
    assert report.notes["decisions dropped with them"] == 10 - len(decisions) > 0
    assert len(decisions[0].images) == 1


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path):
    with pytest.raises(RunError, match=r"tokenizer\.json"):
        load_token_counter(tmp_path)
