"""EgoPro's judged metrics of intent streams: Memory Consistency (MC) and Response Quality (RQ).

Replies inside gold intervals are scored 1 to 5; several replies in one interval give it the lowest
score (paper D.2). A failed judge leaves the stream unscored for that metric.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proact_train.core.types import Stream
from proact_train.llm.judge import Judge

LOWEST, HIGHEST = 1, 5
QUALITIES = ("mc", "rq")


@dataclass(frozen=True)
class QualityJudges:
    """Who scores MC (reply against profile and memory) and RQ (reply against the gold reply).

    Both answer on the scale of these metrics, 1 to 5; what lies outside it is a failure.
    """

    memory: Judge
    response: Judge


@dataclass(frozen=True)
class IntentReply:
    """A reply inside a matched gold interval."""

    interval_idx: int
    text: str


def judge_replies(
    streams: Sequence[Stream], replies: Mapping[str, Sequence[IntentReply]], judges: QualityJudges
) -> dict[str, dict[str, list[int] | None]]:
    """Scores the matched intervals of every stream, one batch a metric.

    Args:
        replies: stream id -> replies inside its matched intervals (none: an empty list).

    Returns:
        Stream id -> `mc` and `rq` -> scores of its matched intervals; None where a judge failed.
    """
    rows = [(stream, reply) for stream in streams for reply in replies.get(stream.id, ())]
    scored: dict[str, dict[str, list[int] | None]] = {
        stream.id: {name: [] for name in QUALITIES} for stream in streams if stream.id in replies
    }
    for name, judge in zip(QUALITIES, (judges.memory, judges.response), strict=True):
        pairs = [(reply.text, _reference(name, stream, reply)) for stream, reply in rows]
        answers = judge.score(pairs) if pairs else []
        assert len(answers) == len(pairs), "a judge answers every pair"
        lowest: dict[str, dict[int, int | None]] = {}
        for (stream, reply), answer in zip(rows, answers, strict=True):
            value = answer if answer is not None and LOWEST <= answer <= HIGHEST else None
            known = lowest.setdefault(stream.id, {})
            before = known.get(reply.interval_idx, HIGHEST)
            known[reply.interval_idx] = (
                None if value is None or before is None else min(before, value)
            )
        for stream_id, by_interval in lowest.items():
            values = [value for value in by_interval.values() if value is not None]
            scored[stream_id][name] = values if len(values) == len(by_interval) else None
    return scored


def _reference(name: str, stream: Stream, reply: IntentReply) -> str:
    if name == "rq":
        return stream.intervals[reply.interval_idx].reply or ""
    profile = json.dumps(stream.profile or {}, ensure_ascii=False, sort_keys=True)
    return "\n".join([f"User: {profile}", *(f"Memory: {entry}" for entry in stream.memory)])
