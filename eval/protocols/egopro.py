"""EgoPro-Bench's protocol (paper 5.2 and appendix D): streams and predictions -> scores.

Every metric is taken per stream and averaged over streams; the group `intent` is the unweighted
mean of its domains. A stream without a prediction, or with a frame without a turn, is unscored:
counted, and never part of a mean. Reading and checking prediction files: `eval/score.py`; MC and
RQ: `egopro_judged.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from proact_train.core.errors import DataError
from proact_train.core.types import TIME_TOLERANCE_S, PredictedTurn, Prediction, Stream
from proact_train.stream.timeline import first_scored_frame

from ..metrics.event import score_event
from ..metrics.intent import score_intent
from ..metrics.segments import interval_masks
from ..turns import is_lenient_alert
from .egopro_judged import QUALITIES, IntentReply, QualityJudges, judge_replies

PROTOCOL, VERSION = "egopro", "1"
INTENT_GROUP = "intent"
METRICS = ("precision", "recall", "f1", "gha", "miou")
# A turn's time may lie this far from its frame's.
TURN_TOLERANCE_S = 1e-3


@dataclass(frozen=True)
class EgoProOptions:
    """What the paper leaves open.

    Attributes:
        invalid: an answer that broke the grammar is `wrong` (missed on a gold frame, a false alarm
            on a silent one) or `silence`, as most public evaluators read it.
        lenient: in event streams an invalid answer that is a plain sentence is an alert.
        before_query: `skip` leaves frames before the first query out, `score` scores them as well.
        miou_without_match: an intent stream without a matched pair has mIoU 0 (`zero`) or stays out
            of that mean (`skip`; `miou_n` counts the streams in it).
    """

    invalid: Literal["wrong", "silence"] = "wrong"
    lenient: bool = False
    before_query: Literal["skip", "score"] = "skip"
    miou_without_match: Literal["zero", "skip"] = "zero"


@dataclass(frozen=True)
class StreamScores:
    """One stream by itself.

    Attributes:
        metrics: `METRICS` and `invalid`, the share of scored frames whose answer broke the grammar;
            None = left out of that mean. Empty when unscored.
        unscored: why there is no score, None when there is one.
        replies: replies inside matched intervals, for the judges.
        quality: `mc`, `rq` -> scores of the matched intervals, None where a judge failed; empty
            when nobody judged.
    """

    stream_id: str
    kind: str
    domain: str
    metrics: dict[str, float | None] = field(default_factory=dict)
    unscored: str | None = None
    replies: tuple[IntentReply, ...] = ()
    quality: dict[str, list[int] | None] = field(default_factory=dict)


def score(
    streams: Sequence[Stream],
    predictions: Sequence[Prediction],
    options: EgoProOptions | None = None,
    judges: QualityJudges | None = None,
) -> dict[str, Any]:
    """The Scores object: `{protocol, version, options, n, unscored, groups, domains}`.

    `n` counts scored streams, `unscored` the others; a metric that no stream has is None. With
    `judges` intent groups and domains get `mc` and `rq` (0 for a stream without a match, as in the
    paper's tables), `mc_matched` and `rq_matched` (mean over all matched intervals, as in its text)
    and `mc_unscored`, `rq_unscored`.
    """
    options = options or EgoProOptions()
    per_stream = score_streams(streams, predictions, options, judges)
    return summarise(per_stream, options, judges)


def score_streams(
    streams: Sequence[Stream],
    predictions: Sequence[Prediction],
    options: EgoProOptions,
    judges: QualityJudges | None = None,
) -> list[StreamScores]:
    """Scores every stream by itself, in the order of `streams`."""
    by_id = {prediction.stream_id: prediction for prediction in predictions}
    scored = [_score_stream(stream, by_id.get(stream.id), options) for stream in streams]
    if judges is None:
        return scored
    replies = {
        scores.stream_id: scores.replies
        for scores in scored
        if scores.kind == "intent" and scores.unscored is None
    }
    quality = judge_replies(streams, replies, judges)
    return [replace(scores, quality=quality.get(scores.stream_id, {})) for scores in scored]


def summarise(
    per_stream: Sequence[StreamScores], options: EgoProOptions, judges: QualityJudges | None = None
) -> dict[str, Any]:
    """Averages streams into domains and groups."""
    by_domain: dict[str, list[StreamScores]] = {}
    kinds: dict[str, str] = {}
    for scores in sorted(per_stream, key=lambda scores: scores.domain):
        _check_domain(scores, kinds.setdefault(scores.domain, scores.kind))
        by_domain.setdefault(scores.domain, []).append(scores)
    domains = {name: _mean_over_streams(scores, options) for name, scores in by_domain.items()}
    groups = {name: summary for name, summary in domains.items() if kinds[name] == "event"}
    intents = [summary for name, summary in domains.items() if kinds[name] == "intent"]
    if intents:
        groups[INTENT_GROUP] = _mean_over_domains(intents)
    shown: dict[str, Any] = asdict(options)
    if judges is not None:
        shown["judges"] = {"mc": judges.memory.name, "rq": judges.response.name}
    num_unscored = sum(scores.unscored is not None for scores in per_stream)
    return {
        "protocol": PROTOCOL,
        "version": VERSION,
        "options": shown,
        "n": len(per_stream) - num_unscored,
        "unscored": num_unscored,
        "groups": groups,
        "domains": domains,
    }


def frame_idx_of(t_s: float, fps: float) -> int | None:
    """The frame that a turn at `t_s` answers; None off the grid by more than 1 ms."""
    frame_idx = round(t_s * fps)
    return frame_idx if abs(t_s - frame_idx / fps) <= TURN_TOLERANCE_S else None


def _score_stream(
    stream: Stream, prediction: Prediction | None, options: EgoProOptions
) -> StreamScores:
    blank = StreamScores(stream.id, stream.kind, stream.domain)
    if prediction is None:
        return replace(blank, unscored="no prediction")
    answered = {frame_idx_of(turn.t_s, stream.fps): turn for turn in prediction.turns}
    missing = next((idx for idx in range(stream.num_frames) if idx not in answered), None)
    if missing is not None:
        return replace(blank, unscored=f"no turn for frame {missing}")
    first = first_scored_frame(stream) if options.before_query == "skip" else 0
    if first >= stream.num_frames:
        return replace(blank, unscored="no frame at or after the first query")
    turns = [answered[idx] for idx in range(first, stream.num_frames)]
    speaks = "alert" if stream.kind == "event" else "reply"
    spoken = np.array([turn.action == speaks for turn in turns])
    invalid = np.array([turn.action == "invalid" for turn in turns])
    if options.lenient and stream.kind == "event":
        for idx in np.flatnonzero(invalid).tolist():
            spoken[idx] = is_lenient_alert(turns[idx], prediction.prompt)
        invalid &= ~spoken
    counted = invalid if options.invalid == "wrong" else None
    masks = interval_masks(stream.intervals, stream.num_frames, stream.fps)[:, first:]
    invalid_share = float(np.count_nonzero(invalid) / len(turns))
    if stream.kind == "event":
        event = score_event(np.logical_or.reduce(masks, axis=0), spoken, counted)
        return replace(blank, metrics={**asdict(event), "invalid": invalid_share})
    # Intervals that end before the first scored frame are not scored either.
    first_s = first / stream.fps + TIME_TOLERANCE_S
    kept = [idx for idx, gold in enumerate(stream.intervals) if not first or gold.end_s > first_s]
    intent = score_intent(masks[kept], spoken, counted)
    metrics: dict[str, float | None] = {name: getattr(intent, name) for name in METRICS}
    if intent.miou is None and options.miou_without_match == "zero":
        metrics["miou"] = 0.0
    matched = sorted({kept[interval] for _, interval in intent.matched})
    return replace(
        blank,
        metrics={**metrics, "invalid": invalid_share},
        replies=_replies_inside(matched, masks, spoken, turns),
    )


def _replies_inside(
    matched: Sequence[int], masks: np.ndarray, spoken: np.ndarray, turns: Sequence[PredictedTurn]
) -> tuple[IntentReply, ...]:
    return tuple(
        IntentReply(interval_idx, turns[frame].reply or "")
        for interval_idx in matched
        for frame in np.flatnonzero(masks[interval_idx] & spoken).tolist()
    )


def _mean_over_streams(
    per_stream: Sequence[StreamScores], options: EgoProOptions
) -> dict[str, Any]:
    scored = [scores for scores in per_stream if scores.unscored is None]
    summary: dict[str, Any] = {
        name: _mean(scores.metrics[name] for scores in scored) for name in (*METRICS, "invalid")
    }
    summary |= {"n": len(scored), "unscored": len(per_stream) - len(scored)}
    if options.miou_without_match == "skip" and per_stream[0].kind == "intent":
        summary["miou_n"] = sum(scores.metrics["miou"] is not None for scores in scored)
    for name in QUALITIES if any(scores.quality for scores in scored) else ():
        judged = [values for scores in scored if (values := scores.quality[name]) is not None]
        summary[name] = _mean(_mean(values) or 0.0 for values in judged)
        summary[f"{name}_matched"] = _mean(value for values in judged for value in values)
        summary[f"{name}_unscored"] = len(scored) - len(judged)
    return summary


def _mean_over_domains(domains: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Unweighted mean of domains; counts are added; a domain without a value stays out of it."""
    names = list(dict.fromkeys(name for summary in domains for name in summary))
    return {
        name: sum(summary.get(name, 0) for summary in domains)
        if name in ("n", "unscored") or name.endswith(("_n", "_unscored"))
        else _mean(summary.get(name) for summary in domains)
        for name in names
    }


def _mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that exist, exact in any order; None without one."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _check_domain(scores: StreamScores, kind: str) -> None:
    if scores.kind != kind or (scores.kind == "event" and scores.domain == INTENT_GROUP):
        raise DataError(
            f"stream {scores.stream_id!r}",
            f"domain {scores.domain!r} in an {scores.kind} stream",
            "a domain whose streams are all of one kind, and no event domain called 'intent'",
            "Rename the domain in the source.",
        )
