"""The answer's grammar and the conversation: named failures, round trips, no look-ahead."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proact_train.core.types import Interval, ParseFailure, Query, Source, Stream, Turn, Video
from proact_train.stream.grammar import ATTENTION, SILENCE, parse, render
from proact_train.stream.prompt import build_messages, time_mark
from proact_train.stream.timeline import first_scored_frame, gold_answers

SOURCE = Source("test", "test", "Apache-2.0")


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("<Silence>", "missing_thought"),
        ("a</think><Silence>", "missing_thought"),
        ("<think>a</think><think>b</think><Silence>", "two_thoughts"),
        ("<think>a</think></think><Silence>", "two_thoughts"),
        ("well <think>a</think><Silence>", "text_before_thought"),
        ("<think>a <Silence>", "unclosed_thought"),
        ("<think>a <Attention></think><Silence>", "marker_in_thought"),
        ("<think>a</think>", "missing_answer"),
        ("<think>a</think>  ", "missing_answer"),
        ("<think>a</think><Silence><Silence>", "illegal_answer"),
        ("<think>a</think><Silence> now", "illegal_answer"),
        ("<think>a</think>hello", "illegal_answer"),
        ("</think><think>a<Silence>", "text_before_thought"),
    ],
)
def test_every_failure_has_a_name(text, failure):
    result = parse(text, "event")
    assert isinstance(result, ParseFailure)
    assert result.failure == failure


@pytest.mark.parametrize(
    ("kind", "answer", "action", "reply"),
    [
        ("event", SILENCE, "silence", None),
        ("event", ATTENTION, "alert", None),
        ("intent", SILENCE, "silence", None),
        ("intent", "Take the cup.", "reply", "Take the cup."),
    ],
)
def test_legal_answers(kind, answer, action, reply):
    assert parse(f"<think>t</think>{answer}", kind) == Turn("t", action, reply, answer)
    assert parse(answer, kind, with_thought=False) == Turn(None, action, reply, answer)


def test_what_is_legal_depends_on_the_kind_and_on_lenience():
    assert isinstance(parse(f"<think>t</think>{ATTENTION}", "intent"), ParseFailure)
    lenient = parse("<think>t</think>look", "event", lenient=True)
    assert isinstance(lenient, Turn)
    assert lenient.action == "alert"
    assert parse("<think></think><Silence>", "event") == Turn("", "silence", None, SILENCE)


thoughts = st.text("ab <>/\n", max_size=20).filter(lambda text: "think>" not in text)


@given(thoughts, st.sampled_from([SILENCE, ATTENTION]))
def test_rendering_and_parsing_round_trip(thought, answer):
    turn = parse(render(thought, answer), "event")
    assert isinstance(turn, Turn)
    assert (turn.thought, turn.answer) == (thought.strip(), answer)


@given(st.text(max_size=60))
def test_any_text_parses_or_fails_by_name(text):
    for kind in ("event", "intent"):
        assert isinstance(parse(text, kind), Turn | ParseFailure)


def make_stream(queries: list[tuple[float, str]], kind="event", duration_s=8.0) -> Stream:
    asked = tuple(Query(t_s, text) for t_s, text in queries)
    return Stream("s", Video("/x.mp4", duration_s), kind, "object", SOURCE, query=asked)


@given(
    st.lists(st.tuples(st.floats(0, 7), st.text("qrs", min_size=1, max_size=4)), max_size=4),
    st.integers(0, 7),
)
def test_nothing_later_than_a_frame_is_in_its_prompt(queries, frame_idx):
    stream = make_stream([(t_s, f"[{idx}{text}]") for idx, (t_s, text) in enumerate(queries)])
    answers = [SILENCE] * frame_idx
    messages = build_messages(stream, range(frame_idx + 1), answers)
    text = str(messages)
    for query in stream.query:
        assert (query.text in text) == (query.t_s <= frame_idx + 1e-6)
        assert text.count(query.text) <= 1
    cut = replace(stream, query=tuple(q for q in stream.query if q.t_s <= frame_idx + 1e-6))
    assert messages == build_messages(cut, range(frame_idx + 1), answers)


@given(st.integers(0, 6))
def test_a_prompt_is_a_prefix_of_the_whole_conversation(frame_idx):
    stream = make_stream([(0.0, "a"), (3.5, "b")])
    answers = [f"<think>{idx}</think>{SILENCE}" for idx in range(8)]
    whole = build_messages(stream, range(8), answers)
    prompt = build_messages(stream, range(frame_idx + 1), answers[:frame_idx])
    assert whole[: len(prompt)] == prompt


def test_a_query_outlives_the_turns_that_were_dropped():
    stream = make_stream([(0.0, "watch the pan")])
    messages = build_messages(stream, [5, 6], [SILENCE])
    assert messages[1]["content"][0]["text"] == "watch the pan\n<5.0 seconds>"
    assert messages[3]["content"][0]["text"] == "<6.0 seconds>"


def test_profile_and_memory_stand_in_the_system_message_of_intents_alone():
    stream = replace(make_stream([], "intent"), profile={"name": "Mia"}, memory=("likes tea",))
    system = build_messages(stream, [0], [])[0]["content"][0]["text"]
    assert "Mia" in system
    assert "likes tea" in system
    assert "<think>" in system
    plain = build_messages(stream, [0], [], with_thought=False)[0]["content"][0]["text"]
    assert "<think>" not in plain


def test_gold_answers_by_hand():
    event = replace(make_stream([]), intervals=(Interval(1.0, 3.0), Interval(6.5, 7.0)))
    marks = "".join("A" if a == ATTENTION else "." for a in gold_answers(event))
    assert marks == ".AA....."  # the second interval owns no frame
    intent = replace(make_stream([], "intent"), intervals=(Interval(2.0, 5.0, reply="Hi."),))
    assert [idx for idx, a in enumerate(gold_answers(intent)) if a == "Hi."] == [2]


def test_frames_before_the_first_query_are_not_scored():
    assert first_scored_frame(make_stream([])) == 0
    assert first_scored_frame(make_stream([(2.5, "q")])) == 3
    assert first_scored_frame(make_stream([(3.0, "q")])) == 3
    assert first_scored_frame(make_stream([(99.0, "q")])) == 8
    assert time_mark(12) == "<12.0 seconds>"
