"""A tiny model and a few RL decisions of unequal lengths, for the RL tests."""

from __future__ import annotations

from pathlib import Path

from proact_train.core.contracts import write_decisions
from proact_train.core.types import Decision
from proact_train.stream import grammar
from tests.sft_data import build_inputs as build_sft_inputs
from tests.sft_data import build_samples


def build_decisions(root: Path, num_decisions: int, seed: int = 0) -> list[Decision]:
    """The last turn of each SFT test sample as a decision; histories of 0 to 3 turns."""
    decisions = []
    for idx, sample in enumerate(build_samples(root, num_decisions, seed)):
        answers = [m["content"][0]["text"] for m in sample.messages if m["role"] == "assistant"]
        turns = [grammar.parse(text, "intent") for text in answers]
        thoughts = [getattr(turn, "thought", None) or "red cup" for turn in turns]
        answer = grammar.answer_text(answers[-1])
        messages = [
            {"role": message["role"], "content": message["content"]} for message in sample.messages
        ]
        decisions.append(
            Decision(
                stream_id=sample.stream_id,
                decision_id=f"{sample.stream_id}/{len(answers) - 1}",
                turn_idx=len(answers) - 1,
                prompt=messages[:-1],
                images=sample.images,
                history_thoughts=thoughts[:-1],
                gold_thought=thoughts[-1],
                gold_answer=answer,
                kind="intent" if answer not in grammar.MARKERS else "event",
                domain="object" if idx % 2 else "cooking",
            )
        )
    return decisions


def build_inputs(root: Path, num_decisions: int = 8) -> tuple[Path, Path]:
    """Writes the model's folder and the decisions' file; returns both."""
    model, _ = build_sft_inputs(root, num_decisions)
    write_decisions(root / "decisions.jsonl", build_decisions(root, num_decisions))
    return model, root / "decisions.jsonl"
