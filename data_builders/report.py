"""What a builder did: counts, hours, class balance, and every drop with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from proact_train.core.jsonl import write_json
from proact_train.core.types import Stream
from proact_train.stream.grammar import ATTENTION, SILENCE
from proact_train.stream.timeline import gold_answers


@dataclass(frozen=True)
class Drop:
    """A source row that became no stream: where it stands and why."""

    where: str
    reason: str
    detail: str


@dataclass
class BuildReport:
    """The report of one builder; `notes` counts what was changed but kept."""

    builder: str
    num_streams: int = 0
    num_frames: int = 0
    hours: float = 0.0
    domains: dict[str, int] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    drops: list[Drop] = field(default_factory=list)

    def add_streams(self, streams: Sequence[Stream]) -> None:
        """Counts finished streams: frames, hours, domains and gold answers by class."""
        domains, answers = Counter(self.domains), Counter(self.answers)
        for stream in streams:
            domains[stream.domain] += 1
            answers.update(answer_class(answer) for answer in gold_answers(stream))
            self.num_frames += stream.num_frames
            self.hours += stream.video.duration_s / 3600
        self.num_streams += len(streams)
        self.domains, self.answers = dict(sorted(domains.items())), dict(sorted(answers.items()))

    def note(self, what: str, count: int = 1) -> None:
        """Counts something that was changed but kept."""
        self.notes[what] = self.notes.get(what, 0) + count

    def write(self, path: Path) -> None:
        """Writes the report as JSON, atomically."""
        write_json(path, asdict(self))

    def __str__(self) -> str:
        lines = [
            f"{self.builder}: {self.num_streams} streams, {self.num_frames} frames, "
            f"{self.hours:.2f} hours"
        ]
        lines += [f"  domain {name}: {count} streams" for name, count in self.domains.items()]
        lines += [
            f"  {name}: {count} frames ({count / max(1, self.num_frames):.1%})"
            for name, count in self.answers.items()
        ]
        lines += [f"  {what}: {count}" for what, count in self.notes.items()]
        if self.drops:
            lines.append(f"  dropped: {len(self.drops)}")
        for reason, count in Counter(drop.reason for drop in self.drops).most_common():
            example = next(drop for drop in self.drops if drop.reason == reason)
            lines.append(f"    {reason}: {count}, first {example.where}: {example.detail}")
        return "\n".join(lines)


def answer_class(answer: str) -> str:
    """`silence`, `alert` or `reply`."""
    return {SILENCE: "silence", ATTENTION: "alert"}.get(answer, "reply")
