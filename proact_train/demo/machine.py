"""What the demo ran on, and the most memory that it and its training processes held at once."""

from __future__ import annotations

import os
import platform
import threading
from pathlib import Path
from types import TracebackType

import psutil

from ..core.jsonl import write_json

_EVERY_S = 2.0
_GIB = 2**30


class MemoryWatch:
    """Samples resident memory of this process and all its descendants; keeps the highest sum.

    Pages that processes share count once for each, so the figure is an upper bound. The file keeps
    the peak over interruptions.
    """

    def __init__(self, path: Path):
        self.path, self.peak_bytes = path, round(load_peak_gib(path) * _GIB)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_S):
            now = resident_bytes()
            if now > self.peak_bytes:
                self.peak_bytes = now
                write_json(self.path, {"peak_gib": now / _GIB})


def resident_bytes() -> int:
    """Resident memory of this process and its descendants now."""
    this = psutil.Process()
    total = 0
    for process in (this, *this.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue  # ended in between
    return total


def load_peak_gib(path: Path) -> float:
    """The peak that was recorded, 0 if none was."""
    import json

    return json.loads(path.read_text(encoding="utf-8"))["peak_gib"] if path.is_file() else 0.0


def describe_machine(memory: Path) -> str:
    """Processor, cores and peak memory in one line."""
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"peak memory {load_peak_gib(memory):.1f} GiB"
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
