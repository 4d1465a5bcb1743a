"""The append-only file that lets an interrupted prediction run go on stream by stream.

Its first line says what runs (model, prompt, options); each further line is one finished stream
with a digest of what the model was told about it. A last line torn by a kill is dropped.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from pydantic import TypeAdapter

from proact_train.core.errors import DataError, RunError
from proact_train.core.jsonl import parse_object
from proact_train.core.types import Prediction, Stream

from .turns import told

_PREDICTION = TypeAdapter(Prediction)


class PartialFile:
    """Finished streams of a run, on disk after each.

    Attributes:
        finished: stream id -> prediction, for streams that are still told the same.
        num_changed: streams that were finished but have changed since; they are predicted again.
    """

    def __init__(self, path: Path, identity: dict[str, Any], streams: list[Stream]):
        self.path, self.identity = path, identity
        self._digests = {stream.id: told_digest(stream) for stream in streams}
        self.finished: dict[str, Prediction] = {}
        self.num_changed = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> PartialFile:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b")
        try:
            self._lock()
            self._read()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._file is not None
        self._file.close()

    def append(self, prediction: Prediction) -> None:
        """Keeps a finished stream; on disk when this returns."""
        digest = self._digests[prediction.stream_id]
        self._write({"told": digest, "prediction": asdict(prediction)})
        self.finished[prediction.stream_id] = prediction

    def delete(self) -> None:
        """Removes the file, once everything stands in its final place."""
        self.path.unlink(missing_ok=True)

    def _lock(self) -> None:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                str(self.path),
                "another run that writes it",
                "one run for one output",
                "Wait for it, or choose another --out.",
            ) from None

    def _read(self) -> None:
        assert self._file is not None
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            self._file.truncate(len(whole))
        lines = whole.splitlines()
        if not lines:
            self._write({"run": self.identity})
            return
        self._check_identity(parse_object(f"{self.path}:1", lines[0]).get("run"))
        for line_no, line in enumerate(lines[1:], start=2):
            self._take(f"{self.path}:{line_no}", line)

    def _take(self, where: str, line: bytes) -> None:
        value = parse_object(where, line)
        try:
            prediction = _PREDICTION.validate_json(json.dumps(value["prediction"]))
        except (KeyError, ValueError):
            raise DataError(
                where,
                "a line that is no finished stream",
                "lines as `proact predict` writes them",
                "Delete the line, or the file to begin anew.",
            ) from None
        digest = self._digests.get(prediction.stream_id)
        if digest == value.get("told"):
            self.finished[prediction.stream_id] = prediction
        elif digest is not None:
            self.num_changed += 1

    def _check_identity(self, found: Any) -> None:
        if found == self.identity:
            return
        found = found if isinstance(found, dict) else {}
        different = [
            f"{key} {found.get(key)!r} (now {self.identity.get(key)!r})"
            for key in {**found, **self.identity}
            if found.get(key) != self.identity.get(key)
        ]
        raise RunError(
            str(self.path),
            f"unfinished predictions of another run: {'; '.join(different)}",
            "the same model, prompt and options",
            "Choose another --out, or delete this file to begin anew.",
        )

    def _write(self, value: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def told_digest(stream: Stream) -> str:
    """Digest of all that a model can know of a stream; gold has no part in it."""
    value = json.dumps(asdict(told(stream)), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(value.encode()).hexdigest()[:16]


def weights_fingerprint(folder: str | Path) -> str:
    """Digest of a model folder: names and sizes of its files, and samples of their bytes.

    Reads at most 256 KiB a file, so that 17 GB of weights take no time; training changes all
    weights, therefore samples tell two checkpoints apart.
    """
    digest = hashlib.sha256()
    names = (".safetensors", ".json", ".bin", ".jinja", ".txt")
    for path in sorted(Path(folder).iterdir()):
        if path.suffix not in names:
            continue
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}".encode())
        with path.open("rb") as file:
            for part in range(64):
                file.seek(part * size // 64)
                digest.update(file.read(4096))
    return digest.hexdigest()[:16]
