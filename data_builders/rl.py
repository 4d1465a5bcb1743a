"""Streams -> RL decisions: onsets, turns inside, ends and seeded silent turns.

example:
  proact build rl --streams data/toy/rl.jsonl --tokenizer runs/tiny --out data/toy_rl --seed 0
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proact_train.core.contracts import load_streams, write_decisions
from proact_train.core.types import Decision, Stream
from proact_train.stream.grammar import render
from proact_train.stream.prompt import build_messages
from proact_train.stream.store import FrameStore
from proact_train.stream.timeline import first_scored_frame, gold_answers, interval_frames

from .report import BuildReport, Drop
from .turns import (
    MAX_THOUGHT_TOKENS,
    CountTokens,
    count_prompt_tokens,
    first_turn_in_budget,
    gold_thoughts,
    load_token_counter,
    store_frames,
    tokens_per_image,
)

PLACES = ("onset", "inside", "end", "silent")


@dataclass(frozen=True)
class RlOptions:
    """How decisions are picked; the paper's RL settings by default."""

    decisions_per_stream: int = 4
    seed: int = 0
    max_pixels: int = 200_704
    max_context_tokens: int = 20_000
    max_thought_tokens: int = MAX_THOUGHT_TOKENS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = RlOptions()
    parser.add_argument("--streams", type=Path, required=True, help="streams to pick from")
    parser.add_argument("--out", type=Path, required=True, help="folder for decisions and frames")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of the policy model")
    parser.add_argument("--decisions-per-stream", type=int, default=default.decisions_per_stream)
    parser.add_argument("--seed", type=int, default=default.seed, help="same seed, same decisions")
    parser.add_argument("--max-pixels", type=int, default=default.max_pixels)
    parser.add_argument("--max-context-tokens", type=int, default=default.max_context_tokens)
    parser.add_argument("--max-thought-tokens", type=int, default=default.max_thought_tokens)


def run(args: argparse.Namespace) -> None:
    options = RlOptions(
        args.decisions_per_stream,
        args.seed,
        args.max_pixels,
        args.max_context_tokens,
        args.max_thought_tokens,
    )
    count_tokens = load_token_counter(args.tokenizer)
    report = build_rl(load_streams(args.streams), args.out, count_tokens, options)
    print(report)
    print(f"decisions: {args.out / 'decisions.jsonl'}")


def build_rl(
    streams: Sequence[Stream], out: Path, count_tokens: CountTokens, options: RlOptions
) -> BuildReport:
    """Writes `OUT/decisions.jsonl`, `OUT/images/` and `OUT/report.json`."""
    report = BuildReport("rl")
    store = FrameStore(out.absolute() / "images", options.max_pixels)
    decisions: list[Decision] = []
    asked = [a for s in streams if (a := _ask(s, count_tokens, options, report)) is not None]
    frames = store_frames([each.stream for each in asked], store, report, "RL decisions")
    for each, images in zip(asked, frames, strict=True):
        if images is None:
            continue
        if built := _build_decisions(each, images, count_tokens, options, report):
            decisions += built
            report.add_streams([each.stream])
    write_decisions(out.absolute() / "decisions.jsonl", decisions)
    report.note("decisions", len(decisions))
    report.write(out / "report.json")
    return report


def pick_turns(stream: Stream, num_decisions: int, seed: int) -> dict[int, str]:
    """Picks turns, one of each place in turn until there are enough: frame index -> place.

    A stream's picks depend on the seed and its id alone. Turns before the first query are not
    picked. An onset is the first frame of a gold interval, an end the first frame behind it.
    """
    first, spans = first_scored_frame(stream), set[int]()
    pools: dict[str, set[int]] = {place: set() for place in PLACES}
    for interval in stream.intervals:
        frames = interval_frames(interval, stream.fps, stream.num_frames)
        if frames:
            spans.update(frames)
            pools["onset"].add(frames[0])
            pools["inside"].update(frames[1:])
            pools["end"].add(frames[-1] + 1)
    everything = set(range(first, stream.num_frames))
    pools["onset"] &= everything
    pools["inside"] &= everything - pools["onset"]
    pools["end"] = (pools["end"] & everything) - spans
    pools["silent"] = everything - spans - pools["end"]
    rng = random.Random(f"{seed}/{stream.id}")
    queues = {place: rng.sample(sorted(pool), len(pool)) for place, pool in pools.items()}
    picked: dict[int, str] = {}
    while len(picked) < num_decisions and any(queues.values()):
        for place, queue in queues.items():
            if queue and len(picked) < num_decisions:
                picked[queue.pop()] = place
    return dict(sorted(picked.items()))


@dataclass(frozen=True)
class _Asked:
    """A stream with the turns to decide (frame index -> place) and its gold thoughts."""

    stream: Stream
    picked: dict[int, str]
    thoughts: list[str]


def _ask(
    stream: Stream, count_tokens: CountTokens, options: RlOptions, report: BuildReport
) -> _Asked | None:
    """Picks a stream's turns; None (and a counted drop) if there are none or the gold is bad."""
    picked = pick_turns(stream, options.decisions_per_stream, options.seed)
    if not picked:
        report.drops.append(Drop(stream.id, "no turn to decide", "every frame precedes the query"))
        return None
    thoughts = gold_thoughts(stream, options.max_thought_tokens, count_tokens, report)
    return None if thoughts is None else _Asked(stream, picked, thoughts)


def _build_decisions(
    asked: _Asked,
    images: list[Path],
    count_tokens: CountTokens,
    options: RlOptions,
    report: BuildReport,
) -> list[Decision]:
    """Decisions of one stream, all from the same first turn so that they share one trunk."""
    stream, picked, thoughts = asked.stream, asked.picked, asked.thoughts
    answers = gold_answers(stream)
    raw = [render(*turn) for turn in zip(thoughts, answers, strict=True)]
    image_tokens = tokens_per_image(images[0])
    start = first_turn_in_budget(
        stream,
        raw,
        max(picked),
        True,
        lambda messages: count_prompt_tokens(messages, image_tokens, count_tokens),
        options.max_context_tokens,
    )
    if start:
        report.note("turns dropped from the start to fit the token budget", start)
        report.note("decisions dropped with them", sum(idx < start for idx in picked))
    if start > max(picked):
        report.drops.append(
            Drop(stream.id, "not one turn fits the token budget", f"{options.max_context_tokens}")
        )
    decisions = []
    for idx, place in picked.items():
        if idx < start:
            continue
        report.note(f"decisions: {place}")
        decisions.append(
            Decision(
                stream_id=stream.id,
                decision_id=f"{stream.id}/{idx:06d}",
                turn_idx=idx,
                prompt=build_messages(stream, range(start, idx + 1), raw[start:idx]),
                images=[str(path) for path in images[start : idx + 1]],
                history_thoughts=thoughts[start:idx],
                gold_thought=thoughts[idx],
                gold_answer=answers[idx],
                kind=stream.kind,
                domain=stream.domain,
            )
        )
    return decisions
