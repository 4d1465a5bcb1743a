"""A model's text becomes a predicted turn; a stream loses its gold before a model sees it.

Also the names of prompts that stand in prediction files.
"""

from __future__ import annotations

from dataclasses import replace

from proact_train.core.types import Kind, ParseFailure, PredictedTurn, Stream
from proact_train.stream import grammar
from proact_train.stream.prompt import PROMPT_NAMES, PROMPT_VERSION

_WITHOUT_THOUGHT = "no-think"


def prompt_id(kind: Kind, with_thought: bool) -> str:
    """The `prompt` of a prediction, such as `proact.prompt/1 alert` or `… alert no-think`."""
    name = f"{PROMPT_VERSION} {PROMPT_NAMES[kind]}"
    return name if with_thought else f"{name} {_WITHOUT_THOUGHT}"


def told(stream: Stream) -> Stream:
    """The stream as a model may know it: without intervals and gold thoughts."""
    return replace(stream, intervals=(), thoughts=None)


def to_turn(
    t_s: float, raw: str, kind: Kind, with_thought: bool, latency_s: float | None = None
) -> PredictedTurn:
    """Parses a raw answer; one that breaks the grammar is action `invalid` with its failure."""
    parsed = grammar.parse(raw, kind, with_thought)
    if isinstance(parsed, ParseFailure):
        return PredictedTurn(t_s, raw, None, "invalid", parsed.failure, latency_s=latency_s)
    return PredictedTurn(
        t_s, raw, parsed.thought, parsed.action, reply=parsed.reply, latency_s=latency_s
    )


def is_lenient_alert(turn: PredictedTurn, prompt: str) -> bool:
    """Whether an invalid answer of an event stream is a sentence, an alert under `lenient`."""
    with_thought = not prompt.endswith(_WITHOUT_THOUGHT)
    parsed = grammar.parse(turn.raw, "event", with_thought, lenient=True)
    return not isinstance(parsed, ParseFailure) and parsed.action == "alert"
