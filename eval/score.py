"""Score predictions by a benchmark's protocol: `proact score egopro --gold … --pred … [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from proact_train.core.contracts import load_predictions, load_streams
from proact_train.core.errors import DataError
from proact_train.core.jsonl import read_lines
from proact_train.core.types import TIME_TOLERANCE_S, PredictedTurn, Prediction, Stream

from .protocols import egopro
from .protocols.egopro_judged import QualityJudges

_SHOWN = {"object": "EgoPro-Object", "action": "EgoPro-Action", "intent": "EgoPro-Intent"}
_COLUMNS = (
    ("precision", "Precision"),
    ("recall", "Recall"),
    ("f1", "F1."),
    ("gha", "GHA"),
    ("miou", "mIoU"),
    ("mc", "MC"),
    ("rq", "RQ"),
    ("mc_matched", "MC*"),
    ("rq_matched", "RQ*"),
    ("invalid", "Invalid"),
    ("n", "n"),
    ("unscored", "Unscored"),
)
_AS_THEY_ARE = {"mc", "rq", "mc_matched", "rq_matched", "n", "unscored"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `proact score`."""
    defaults = egopro.EgoProOptions()
    parser.add_argument("protocol", choices=["egopro"], help="which benchmark's rules")
    parser.add_argument("--gold", required=True, help="streams.jsonl with the gold intervals")
    parser.add_argument("--pred", required=True, help="predictions.jsonl")
    parser.add_argument("--json", action="store_true", help="print the Scores object only")
    parser.add_argument(
        "--invalid",
        choices=["wrong", "silence"],
        default=defaults.invalid,
        help="what an answer that broke the grammar counts as (default: %(default)s)",
    )
    parser.add_argument(
        "--lenient", action="store_true", help="a sentence in an event stream is an alert"
    )
    parser.add_argument(
        "--before-query",
        choices=["skip", "score"],
        default=defaults.before_query,
        help="frames before the first query (default: %(default)s)",
    )
    parser.add_argument(
        "--miou-without-match",
        choices=["zero", "skip"],
        default=defaults.miou_without_match,
        help="mIoU of an intent stream without a matched reply (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Runs `proact score`."""
    options = egopro.EgoProOptions(
        args.invalid, args.lenient, args.before_query, args.miou_without_match
    )
    streams = load_streams(args.gold)
    predictions = load_checked_predictions(args.pred, streams)
    per_stream = egopro.score_streams(streams, predictions, options)
    scores = egopro.summarise(per_stream, options)
    if args.json:
        print(json.dumps(scores, allow_nan=False))
    else:
        print(format_table(scores, _model_name(predictions)))
    for reason, ids in _unscored_reasons(per_stream).items():
        print(f"unscored, {reason}: {len(ids)} (first {ids[0]!r})", file=sys.stderr)


def score_predictions(
    streams: Sequence[Stream],
    predictions: Sequence[Prediction],
    options: egopro.EgoProOptions | None = None,
    judges: QualityJudges | None = None,
) -> dict[str, Any]:
    """Checks and scores predictions by EgoPro's protocol; returns the Scores object.

    Raises:
        DataError: as `check_prediction`, or a prediction for a stream that the gold lacks.
    """
    by_id = {stream.id: stream for stream in streams}
    for prediction in predictions:
        _check_known("predictions", prediction, by_id)
    return egopro.score(streams, predictions, options, judges)


def load_checked_predictions(path: str, streams: Sequence[Stream]) -> list[Prediction]:
    """Reads predictions and checks each against its stream.

    Raises:
        DataError: naming file, line, stream and turn.
    """
    predictions = load_predictions(path)
    by_id = {stream.id: stream for stream in streams}
    for (where, _), prediction in zip(read_lines(path), predictions, strict=True):
        _check_known(where, prediction, by_id)
    return predictions


def check_prediction(where: str, stream: Stream, prediction: Prediction) -> None:
    """Checks the turns of a stream: ascending, on the frame grid, inside it, legal for its kind.

    A frame without a turn is no error: it makes the stream unscored.

    Raises:
        DataError: naming `where`, the stream and the turn.
    """
    last_frame = stream.num_frames - 1
    previous: int | None = None
    for idx, turn in enumerate(prediction.turns):
        place = f"{where} (stream {stream.id!r}) turns[{idx}]"
        frame = egopro.frame_idx_of(turn.t_s, stream.fps)
        if frame is None or frame < 0:
            raise DataError(
                place,
                f"t_s {turn.t_s}",
                f"a frame's time, k / {stream.fps} s, to 1 ms",
                "Answer at the times of the frames.",
            )
        if frame > last_frame:
            raise DataError(
                place,
                f"t_s {turn.t_s}, past the end",
                f"at most {last_frame / stream.fps + TIME_TOLERANCE_S:.3f} s, its last frame",
                "Predict with this gold file.",
            )
        if previous is not None and frame <= previous:
            what = "a second turn" if frame == previous else "a turn behind a later one"
            raise DataError(
                place,
                f"{what} at {turn.t_s} s",
                "one turn a frame, in order of time",
                "Sort the turns and keep one a frame.",
            )
        previous = frame
        _check_action(place, stream, turn)


def format_table(scores: dict[str, Any], model: str) -> str:
    """The paper's layout: one block of columns a group, then a line a domain; rates in percent."""
    groups, domains = scores["groups"], scores["domains"]
    if not groups:
        return "no streams"
    name_width = max(len(name) for name in ("Model", model, *domains)) + 2
    blocks = [_block(_SHOWN.get(str(name)) or name, groups[name]) for name in groups]
    lines = [
        " " * name_width + "  ".join(block[0] for block in blocks),
        "Model".ljust(name_width) + "  ".join(block[1] for block in blocks),
        model.ljust(name_width) + "  ".join(block[2] for block in blocks),
    ]
    intents = [name for name in domains if name not in groups]
    if intents:
        title, header, mean = _block("EgoPro-Intent", groups["intent"])
        lines += ["", " " * name_width + title, "Domain".ljust(name_width) + header]
        lines += [name.ljust(name_width) + _block("", domains[name])[2] for name in intents]
        lines.append("Mean".ljust(name_width) + mean)
    lines += ["", f"{scores['n']} streams scored, {scores['unscored']} unscored; rates in percent"]
    if "mc_matched" in groups.get("intent", {}):
        lines.append("MC, RQ: 0 for a stream without a match; MC*, RQ*: matched intervals only")
    return "\n".join(lines)


def _block(title: str, summary: dict[str, Any]) -> tuple[str, str, str]:
    columns = [(key, shown) for key, shown in _COLUMNS if key in summary]
    header = " ".join(shown.rjust(9) for _, shown in columns)
    cells = " ".join(_cell(key, summary[key]).rjust(9) for key, _ in columns)
    return title.center(len(header)), header, cells


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value if key in _AS_THEY_ARE else 100 * value:.2f}"


def _model_name(predictions: Sequence[Prediction]) -> str:
    names = sorted({prediction.model for prediction in predictions})
    return names[0] if len(names) == 1 else f"{len(names)} models"


def _unscored_reasons(per_stream: Sequence[egopro.StreamScores]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for scores in per_stream:
        if scores.unscored is not None:
            kind = "no turn for a frame" if "turn" in scores.unscored else scores.unscored
            reasons.setdefault(kind, []).append(scores.stream_id)
    return reasons


def _check_known(where: str, prediction: Prediction, by_id: dict[str, Stream]) -> None:
    stream = by_id.get(prediction.stream_id)
    if stream is None:
        raise DataError(
            where,
            f"stream {prediction.stream_id!r}",
            "a stream of the gold file",
            "Pass the gold that was predicted, or delete the line.",
        )
    check_prediction(where, stream, prediction)


def _check_action(place: str, stream: Stream, turn: PredictedTurn) -> None:
    speaks = "alert" if stream.kind == "event" else "reply"
    if turn.action not in ("silence", "invalid", speaks):
        raise DataError(
            place,
            f"action {turn.action!r} in an {stream.kind} stream",
            f"silence, {speaks} or invalid",
            "Predict with this gold file.",
        )
    if turn.action == "reply" and not turn.reply:
        raise DataError(place, "a reply without text", "its sentence", "Fill in `reply`.")
