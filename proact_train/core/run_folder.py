"""The layout of a run folder, and which of its checkpoints can be trusted.

RUN/recipe.yaml        the recipe with every value in full
RUN/metrics.jsonl      one object a logged step
RUN/completions.jsonl  RL: a table of completions
RUN/checkpoint-N/      a resumable checkpoint; complete once it holds COMPLETE
RUN/model/             the final weights: a loadable folder (SFT) or the adapter (RL)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .errors import RunError
from .jsonl import parse_object

COMPLETE = "COMPLETE"
METRICS = "metrics.jsonl"
MODEL = "model"


def newest_complete_checkpoint(run: str | Path) -> Path | None:
    """The checkpoint with the highest step that was written to its end, or None.

    A run killed while it saves leaves a folder without the marker file, which is passed over.
    """
    complete = [path.parent for path in Path(run).glob(f"checkpoint-*/{COMPLETE}")]
    return max(complete, key=checkpoint_step, default=None)


def checkpoint_step(checkpoint: Path) -> int:
    """The optimiser step of `checkpoint-N`."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def mark_complete(checkpoint: Path) -> None:
    """Writes the marker; call it last, once every rank has saved."""
    (checkpoint / COMPLETE).touch()


def append_metrics(run: str | Path, metrics: dict[str, Any]) -> None:
    """Appends one object to the run's metrics; call it on the main process only."""
    path = Path(run) / METRICS
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(metrics, ensure_ascii=False) + "\n")


def load_metrics(run: str | Path, up_to_step: int | None = None) -> list[dict[str, Any]]:
    """Reads the run's metrics in order; a last line torn by a kill is dropped.

    Args:
        up_to_step: keep only objects with `step` at or below it, as a resumed run must.
    """
    path = Path(run) / METRICS
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    whole = lines[:-1]  # what stands behind the last newline is empty or torn
    rows = [parse_object(f"{path}:{i}", line) for i, line in enumerate(whole, 1) if line.strip()]
    if up_to_step is None:
        return rows
    return [row for row in rows if row.get("step", 0) <= up_to_step]


def model_folder(path: str | Path) -> Path:
    """The weights folder behind `path`: a run folder's `model/`, or `path` itself.

    Raises:
        RunError: neither is there.
    """
    path = Path(path)
    for folder in (path / MODEL, path):
        if (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
            return folder
    raise RunError(
        str(path),
        "no model (config.json or adapter_config.json)",
        "a Hugging Face folder or a finished run folder",
        "Wait for the run to finish, or give the model's own folder.",
    )
