"""JSON Lines on disk: reading with `file:line` in every error, writing whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from .errors import DataError


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Opens a temporary file beside `path` and renames it over `path` if the block succeeds."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_jsonl(path: str | Path, rows: Iterable[dict[str, Any]]) -> int:
    """Writes rows as JSON Lines, atomically; returns how many."""
    num_rows = 0
    with atomic_write(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            num_rows += 1
    return num_rows


def write_json(path: str | Path, value: Any) -> None:
    """Writes one indented JSON value, atomically."""
    with atomic_write(path) as file:
        json.dump(value, file, ensure_ascii=False, allow_nan=False, indent=2)
        file.write("\n")


def read_lines(path: str | Path) -> Iterator[tuple[str, bytes]]:
    """Yields (`file:line`, line) for every line that is not blank.

    Raises:
        DataError: the file is missing or a line is not UTF-8.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(str(path), "no such file", "a JSON Lines file", "Check the path.")
    with path.open("rb") as file:
        for line_no, line in enumerate(file, start=1):
            where = f"{path}:{line_no}"
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    where,
                    f"byte 0x{line[error.start]:02x} at column {error.start + 1}",
                    "UTF-8 text",
                    "Convert the file to UTF-8 (`iconv -t utf-8`).",
                ) from None
            if line.strip():
                yield where, line


def read_jsonl(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (`file:line`, object) for every line.

    Raises:
        DataError: as `read_lines`, or a line is not one JSON object.
    """
    for where, line in read_lines(path):
        yield where, parse_object(where, line)


def parse_object(where: str, line: bytes | str) -> dict[str, Any]:
    """Parses one JSON object; NaN and infinities are refused as JSON refuses them."""
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except ValueError as error:
        raise DataError(
            where,
            f"invalid JSON ({error})",
            "one JSON object on the line",
            "Fix or delete the line.",
        ) from None
    if not isinstance(value, dict):
        raise DataError(
            where, f"a JSON {type(value).__name__}", "a JSON object", "Write one object a line."
        )
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
