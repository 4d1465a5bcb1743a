"""Loading recipes: one YAML file, checked overrides, errors that name file, line and key.

A stage owns its own model (`sft/recipe.py`, `rl/recipe.py`, `eval/recipe.py`); here they are only
loaded, overridden and refused. YAML 1.2, so that `1e-6` is a number.
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from ruamel.yaml import YAML, YAMLError

from .errors import RecipeError, RunError
from .jsonl import atomic_write


class Recipe(BaseModel):
    """The base of every recipe model: unknown keys and silent type changes are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


RecipeT = TypeVar("RecipeT", bound=Recipe)


def load_recipe(path: str | Path, model: type[RecipeT], overrides: Sequence[str] = ()) -> RecipeT:
    """Reads a recipe and applies `key=value` overrides (dotted keys reach into sections).

    Raises:
        RecipeError: the file is missing or not YAML, a key is unknown (the nearest one is named), a
            value has another type or lies out of range, or two keys are at odds.
    """
    path = Path(path)
    values = _read_mapping(path)
    lines = _key_lines(values)
    for override in overrides:
        key = _apply_override(values, override)
        lines[key] = f"command line, {override!r}"
    try:
        return model.model_validate(_plain(values))
    except ValidationError as error:
        raise _explain(path, model, lines, error) from None


def dump_recipe(recipe: BaseModel, path: str | Path) -> None:
    """Writes a recipe with every value in full, atomically."""
    buffer = io.StringIO()
    YAML(typ="safe").dump(recipe.model_dump(mode="json"), buffer)
    with atomic_write(path) as file:
        file.write(buffer.getvalue())


def check_same_recipe(recipe: Recipe, run: str | Path, keys_free_on_resume: frozenset[str]) -> None:
    """A run resumes only under what it was started with: the `recipe.yaml` in its folder.

    Args:
        keys_free_on_resume: keys that change no number that is trained.

    Raises:
        RunError: naming the keys whose values differ.
    """
    before = load_recipe(Path(run) / "recipe.yaml", type(recipe)).model_dump()
    after = recipe.model_dump()
    changed = [k for k in after if k not in keys_free_on_resume and before[k] != after[k]]
    if changed:
        raise RunError(
            f"{run}: {', '.join(changed)}",
            ", ".join(f"{after[key]!r}" for key in changed),
            f"{', '.join(f'{before[key]!r}' for key in changed)}, as its checkpoint was trained",
            "Restore the values, or give another output_dir to start anew.",
        )


def _read_mapping(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise RecipeError(str(path), "no such file", "a recipe in YAML", "Look below recipes/.")
    try:
        # The round-trip loader executes nothing either, and remembers the line of every key.
        values = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error)
        raise RecipeError(where, problem, "valid YAML in UTF-8", "Mend the line.") from None
    if not isinstance(values, dict):
        raise RecipeError(
            str(path), f"a {type(values).__name__}", "`key: value` lines", "Write a mapping."
        )
    return values


def _key_lines(values: Any, prefix: str = "") -> dict[str, str]:
    lines: dict[str, str] = {}
    for key, value in values.items():
        lines[f"{prefix}{key}"] = f"line {values.lc.key(key)[0] + 1}"
        if isinstance(value, dict):
            lines |= _key_lines(value, f"{prefix}{key}.")
    return lines


def _apply_override(values: dict[str, Any], override: str) -> str:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise RecipeError(
            f"command line, {override!r}",
            "no `=`",
            "key=value",
            "Write for example learning_rate=1e-5.",
        )
    try:
        value = YAML(typ="safe").load(text) if text else ""
    except YAMLError:
        value = text
    *sections, last = key.split(".")
    for section in sections:
        child = values.setdefault(section, {})
        if not isinstance(child, dict):
            raise RecipeError(
                f"command line, {override!r}",
                f"{section} = {child!r}, which has no keys below it",
                "a section",
                f"Set {section} itself.",
            )
        values = child
    values[last] = value
    return key


def _plain(value: Any) -> Any:
    """Strips the round-trip loader's types, so that strict validation sees builtins."""
    if isinstance(value, dict):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    for builtin in (bool, int, float, str):
        if isinstance(value, builtin):
            return builtin(value)
    return value


def _explain(
    path: Path, model: type[BaseModel], lines: dict[str, str], error: ValidationError
) -> RecipeError:
    first = error.errors(include_url=False)[0]
    loc = [str(part) for part in first["loc"]]
    key = ".".join(loc)
    where = str(path)
    if line := _line_of(loc, lines):
        where = f"{path}:{line.removeprefix('line ')}" if line.startswith("line") else line
    if first["type"] == "extra_forbidden":
        known = _known_keys(model, loc[:-1])
        near = difflib.get_close_matches(loc[-1], known, n=1)
        expected = f"a known key, nearest {near[0]!r}" if near else f"one of {', '.join(known)}"
        return RecipeError(where, f"unknown key {key!r}", expected, "Rename or delete the key.")
    if first["type"] == "missing":
        return RecipeError(
            where, f"no key {key!r}", "this key", f"Add it, or give {key}=… on the command line."
        )
    if not key:
        return RecipeError(where, *_cross_check(first))
    message = first["msg"][0].lower() + first["msg"][1:]
    return RecipeError(
        where,
        f"{key} = {first['input']!r}",
        message.removeprefix("value error, "),
        "Correct the value; every key is explained in the stage's recipe.py.",
    )


def _cross_check(first: Any) -> tuple[str, str, str]:
    """A validator over several keys raises ValueError("found; expected; remedy")."""
    parts = first["msg"].removeprefix("Value error, ").split("; ", 2)
    filler = ["", "keys that agree", "Correct one of the keys."]
    found, expected, remedy = parts + filler[len(parts) :]
    return found, expected, remedy


def _line_of(loc: list[str], lines: dict[str, str]) -> str | None:
    for end in range(len(loc), 0, -1):
        if line := lines.get(".".join(loc[:end])):
            return line
    return None


def _known_keys(model: type[BaseModel], sections: list[str]) -> list[str]:
    for section in sections:
        annotation = model.model_fields[section].annotation
        choices = [annotation, *get_args(annotation)]
        nested = [c for c in choices if isinstance(c, type) and issubclass(c, BaseModel)]
        if not nested:
            return []
        model = nested[0]
    return sorted(model.model_fields)
