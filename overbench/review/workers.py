"""Work in several processes that end with their parent, in order and without reading ahead."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Final, TypeVar

WORTH_A_POOL: Final = 20_000_000
"""Bytes of input below which starting processes takes longer than it saves."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    function: Callable[[Item], Result], items: Iterator[Item], workers: int
) -> Iterator[tuple[Item, Result]]:
    """(item, ``function(item)``) of each item, in order.

    Args:
        function: a module's function, so that other processes can import it.
        items: read only a few ahead of the results.
        workers: number of processes; with fewer than two, this process does the work.
    """
    if workers < 2:
        for item in items:
            yield item, function(item)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker) as pool:
        # A window, because map would read the whole file ahead.
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        try:
            for item in items:
                waiting.append((item, pool.submit(function, item)))
                if len(waiting) > 2 * workers:
                    oldest, future = waiting.popleft()
                    yield oldest, future.result()
            for oldest, future in waiting:
                yield oldest, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _prepare_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it: a killed parent closes no queue."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
