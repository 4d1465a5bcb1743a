"""Streams -> SFT samples: whole streams, every turn's answer supervised.

example:
  proact build sft --streams data/toy/train.jsonl --tokenizer runs/tiny --out data/toy_sft
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proact_train.core.contracts import load_streams, write_samples
from proact_train.core.types import SftSample, Stream
from proact_train.stream.grammar import SILENCE, answer_text, render
from proact_train.stream.prompt import build_messages
from proact_train.stream.store import FrameStore
from proact_train.stream.timeline import gold_answers

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


@dataclass(frozen=True)
class SftOptions:
    """How samples are made; the paper's SFT settings by default."""

    max_pixels: int = 1_003_520
    max_context_tokens: int = 131_072
    max_thought_tokens: int = MAX_THOUGHT_TOKENS
    balance_silence: bool = False
    with_thought: bool = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = SftOptions()
    parser.add_argument("--streams", type=Path, required=True, help="streams to imitate")
    parser.add_argument("--out", type=Path, required=True, help="folder for samples and frames")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of the policy model")
    parser.add_argument("--max-pixels", type=int, default=default.max_pixels)
    parser.add_argument("--max-context-tokens", type=int, default=default.max_context_tokens)
    parser.add_argument("--max-thought-tokens", type=int, default=default.max_thought_tokens)
    parser.add_argument(
        "--balance-silence",
        action="store_true",
        help="weight turns so that silent and speaking ones weigh the same in total",
    )
    parser.add_argument("--without-thoughts", action="store_true", help="answers alone")


def run(args: argparse.Namespace) -> None:
    options = SftOptions(
        args.max_pixels,
        args.max_context_tokens,
        args.max_thought_tokens,
        args.balance_silence,
        not args.without_thoughts,
    )
    count_tokens = load_token_counter(args.tokenizer)
    report = build_sft(load_streams(args.streams), args.out, count_tokens, options)
    print(report)
    print(f"samples: {args.out / 'samples.jsonl'}")


def build_sft(
    streams: Sequence[Stream], out: Path, count_tokens: CountTokens, options: SftOptions
) -> BuildReport:
    """Writes `OUT/samples.jsonl`, `OUT/images/` and `OUT/report.json`."""
    report = BuildReport("sft")
    store = FrameStore(out.absolute() / "images", options.max_pixels)
    answers = [_gold_turns(stream, count_tokens, options, report) for stream in streams]
    usable = [(s, turns) for s, turns in zip(streams, answers, strict=True) if turns is not None]
    frames = store_frames([stream for stream, _ in usable], store, report, "SFT samples")
    samples = []
    for (stream, turns), images in zip(usable, frames, strict=True):
        if images is None:
            continue
        sample = _build_sample(stream, turns, images, count_tokens, options, report)
        if sample is not None:
            samples.append(sample)
            report.add_streams([stream])
    if options.balance_silence:
        samples = balance_silence(samples)
    write_samples(out.absolute() / "samples.jsonl", samples)
    report.write(out / "report.json")
    return report


def _gold_turns(
    stream: Stream, count_tokens: CountTokens, options: SftOptions, report: BuildReport
) -> list[str] | None:
    """What the assistant says at every frame; None (and a counted drop) if it is unusable."""
    answers = gold_answers(stream)
    if not options.with_thought:
        return answers
    thoughts = gold_thoughts(stream, options.max_thought_tokens, count_tokens, report)
    if thoughts is None:
        return None
    return [render(*turn) for turn in zip(thoughts, answers, strict=True)]


def _build_sample(
    stream: Stream,
    answers: list[str],
    images: list[Path],
    count_tokens: CountTokens,
    options: SftOptions,
    report: BuildReport,
) -> SftSample | None:
    image_tokens = tokens_per_image(images[0])
    start = first_turn_in_budget(
        stream,
        answers,
        stream.num_frames - 1,
        options.with_thought,
        lambda messages: count_prompt_tokens(messages, image_tokens, count_tokens),
        options.max_context_tokens,
    )
    if start == stream.num_frames:
        report.drops.append(
            Drop(stream.id, "not one turn fits the token budget", f"{options.max_context_tokens}")
        )
        return None
    if start:
        report.note("streams cut at the start to fit the token budget")
        report.note("turns dropped from the start to fit the token budget", start)
    frames = range(start, stream.num_frames)
    messages = build_messages(stream, frames, answers[start:], options.with_thought)
    return SftSample(stream.id, messages, [str(path) for path in images[start:]])


def balance_silence(samples: Sequence[SftSample]) -> list[SftSample]:
    """Gives assistant messages a `loss_weight` so that both classes weigh the same in total.

    With n turns of which n_c are of class c (silent or speaking), a turn of c weighs n / (2 n_c):
    the mean weight is 1. Where one class is absent all weights are 1.
    """
    counts = Counter(
        _is_silent(message)
        for sample in samples
        for message in sample.messages
        if message["role"] == "assistant"
    )
    weights = {c: counts.total() / (2 * n) if len(counts) == 2 else 1.0 for c, n in counts.items()}
    return [
        replace(
            sample,
            messages=[
                {**message, "loss_weight": weights[_is_silent(message)]}
                if message["role"] == "assistant"
                else message
                for message in sample.messages
            ],
        )
        for sample in samples
    ]


def _is_silent(message: dict) -> bool:
    return answer_text(message["content"][0]["text"]) == SILENCE
