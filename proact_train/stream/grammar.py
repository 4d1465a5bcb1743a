"""The grammar of an answer: `<think>thought</think>` and then exactly one legal answer."""

from __future__ import annotations

from ..core.types import Failure, Kind, ParseFailure, Turn

OPEN, CLOSE = "<think>", "</think>"
SILENCE, ATTENTION = "<Silence>", "<Attention>"
MARKERS = (SILENCE, ATTENTION)


def parse(
    text: str, kind: Kind, with_thought: bool = True, lenient: bool = False
) -> Turn | ParseFailure:
    """Parses a whole answer (the end-of-turn token already cut off).

    Args:
        text: what the model wrote; white space around thought and answer does not count.
        kind: an event stream answers `<Silence>` or `<Attention>`, an intent stream `<Silence>` or
            a sentence.
        with_thought: whether a thought must lead; without it, a thought is illegal.
        lenient: in event streams a sentence counts as an alert (for untrained models).

    Returns:
        The turn, or the failure that came first from the left. An empty thought parses.
    """
    thought: str | None = None
    answer = text.strip()
    if with_thought:
        failure = _check_thought(text)
        if failure:
            return ParseFailure(failure, answer_text(text))
        before_close, _, answer = text.partition(CLOSE)
        thought, answer = before_close.partition(OPEN)[2].strip(), answer.strip()
    if not answer:
        return ParseFailure("missing_answer", "")
    if answer == SILENCE:
        return Turn(thought, "silence", None, answer)
    if answer == ATTENTION and kind == "event":
        return Turn(thought, "alert", None, answer)
    if any(mark in answer for mark in (*MARKERS, OPEN, CLOSE, "<|")):
        return ParseFailure("illegal_answer", answer)
    if kind == "intent":
        return Turn(thought, "reply", answer, answer)
    if lenient:
        return Turn(thought, "alert", answer, answer)
    return ParseFailure("illegal_answer", answer)


def answer_text(text: str) -> str:
    """The text behind the last `</think>`, the whole text if there is none (stripped)."""
    return text.rpartition(CLOSE)[2].strip()


def render(thought: str | None, answer: str) -> str:
    """The answer as the model writes it; without a thought, the bare answer."""
    return answer if thought is None else f"{OPEN}{thought}{CLOSE}{answer}"


def _check_thought(text: str) -> Failure | None:
    num_open, num_close = text.count(OPEN), text.count(CLOSE)
    if num_open == 0:
        return "missing_thought"
    if text[: text.index(OPEN)].strip():
        return "text_before_thought"
    if num_open > 1 or num_close > 1:
        return "two_thoughts"
    if num_close == 0:
        return "unclosed_thought"
    thought = text[text.index(OPEN) : text.index(CLOSE)]
    return "marker_in_thought" if any(mark in thought for mark in MARKERS) else None
