"""One function over many items, on all cores, in order, with a progress bar."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
Result = TypeVar("Result")
_FEWEST_ITEMS = 64  # fewer are done before the first process has started
_LARGEST_CHUNK = 16


def map_on_cores(
    function: Callable[[Item], Result], items: Sequence[Item], desc: str, unit: str = "stream"
) -> Iterator[Result]:
    """Yields `function(item)` in the order of the items; the first error ends it.

    Args:
        function: a module's function (or a `partial` of one): processes import it by name.
        desc: what the progress bar says.
    """
    show = partial(tqdm, total=len(items), unit=unit, desc=desc)
    num_workers = min(os.cpu_count() or 1, len(items) // _FEWEST_ITEMS)
    if num_workers < 2:
        yield from show(map(function, items))
        return
    chunk = max(1, min(_LARGEST_CHUNK, len(items) // (8 * num_workers)))
    # Spawned, not forked: the caller may have threads, and torch loaded.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(num_workers, context, _leave_interrupts_to_the_caller)
    try:
        yield from show(pool.map(function, items, chunksize=chunk))
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_caller() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
