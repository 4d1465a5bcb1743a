"""Reading what a demo's folder holds. What is not there is None or 0, for the report to say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from ..core.contracts import load_predictions
from ..core.jsonl import parse_object, read_jsonl, read_lines
from ..core.recipe import Recipe, load_recipe
from ..core.types import Prediction
from ..page.curves import Series

RecipeT = TypeVar("RecipeT", bound=Recipe)


def load_object(path: Path) -> dict[str, Any] | None:
    """One JSON object; None without the file. Raises DataError if it is no object."""
    return parse_object(str(path), path.read_bytes()) if path.is_file() else None


def load_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file; none without the file."""
    return [row for _, row in read_jsonl(path)] if path.is_file() else []


def load_run_recipe(run: Path, model: type[RecipeT]) -> RecipeT | None:
    """The recipe that a run was started with; None without the file."""
    path = run / "recipe.yaml"
    return load_recipe(path, model) if path.is_file() else None


def load_stage_predictions(path: Path) -> dict[str, Prediction] | None:
    """Predictions by stream id; None without the file."""
    if not path.is_file():
        return None
    return {prediction.stream_id: prediction for prediction in load_predictions(path)}


def model_name(path: Path) -> str | None:
    """The model that the first line of a predictions file names."""
    if not path.is_file():
        return None
    first = next(read_lines(path), None)
    return None if first is None else parse_object(*first).get("model")


def count_lines(path: Path) -> int | None:
    """Records of a JSON Lines file; None without the file."""
    return sum(1 for _ in read_lines(path)) if path.is_file() else None


def metric_series(rows: list[dict[str, Any]], key: str, name: str) -> Series | None:
    """A metric over steps, with a gap where a step lacks it; None where every step does."""
    points = tuple((float(row["step"]), row.get(key)) for row in rows)
    return Series(name, points) if any(y is not None for _, y in points) else None
