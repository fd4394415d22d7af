"""Two Ray nodes on this machine for a campaign, one of whose workers is killed, and later a whole node."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from overbench.campaign.engines.processes import left_over

KILLS: Final = (("a worker", 0.3), ("a node", 0.6))
"""What is killed, once this share of a campaign's cells has a shard and something is at work."""


class Nodes:
    """Nodes of one core each, two at first; their head runs nothing.

    Args:
        out: of the campaign.
        cells: that it is to have.

    Attributes:
        killed: what was so far, and the names of the Ray tasks that were lost.
    """

    def __init__(self, cluster: Any, out: Path, cells: int) -> None:
        self._cluster, self._out, self._cells = cluster, out, cells
        self._begun = time.monotonic()
        self.killed: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def look(self) -> None:
        """Kill what is due; to be called often."""
        if len(self.killed) == len(KILLS):
            return
        what, share = KILLS[len(self.killed)]
        states = [*(self._out / "shards").rglob("shard.json"), *(self._out / "cells").rglob("shard.json")]
        begun = {
            file.relative_to(self._out).parts[1:6]
            for file in states
            if '"result": null' not in file.read_text(encoding="utf-8")
        }
        workers = _workers(self._out) if len(begun) >= share * self._cells else {}
        if workers:
            with suppress(
                psutil.Error, StopIteration
            ):  # what ends at this moment: the next look finds others
                self._kill(what, workers, len(begun))

    def _kill(self, what: str, workers: dict[psutil.Process, str], cells: int) -> None:
        lost = dict([next(iter(workers.items()))])
        if what == "a worker":
            next(iter(lost)).kill()
        else:
            node = next(node for node in self._cluster.worker_nodes if next(iter(lost)) in _processes(node))
            lost = {worker: title for worker, title in workers.items() if worker in _processes(node)}
            self._cluster.remove_node(node, allow_graceful=False)
        seconds = round(time.monotonic() - self._begun, 1)
        self.killed.append({"what": what, "at": seconds, "cells": cells, "lost": [*lost.values()]})


def _processes(node: Any) -> list[psutil.Process]:
    return psutil.Process(node.all_processes["raylet"][0].process.pid).children(recursive=True)


def _workers(out: Path) -> dict[psutil.Process, str]:
    """Ray's workers with an lm_eval of the campaign, and their titles, which say what they do."""
    titles = {}
    for pid in left_over(out):
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            above = process.parent()
            if above is not None and "lm_eval" in process.cmdline():
                title = " ".join(above.cmdline()).strip()
                if title.startswith("ray::"):
                    titles[above] = title
    return titles


@contextmanager
def two_nodes(out: Path, cells: int, temporary: Path) -> Iterator[Nodes]:
    """A cluster, whose tasks have their own files, such as the servers' logs, in ``temporary``."""
    from ray.cluster_utils import Cluster

    temporary.mkdir(parents=True, exist_ok=True)
    os.environ |= {"TMPDIR": str(temporary), "RAY_TMPDIR": "/tmp"}
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}
    # Two nodes, two servers and two lm_evals on a machine of two cores are slow to say that they live.
    os.environ |= {"RAY_health_check_timeout_ms": "60000", "RAY_worker_register_timeout_seconds": "300"}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for _ in range(2):
            cluster.add_node(wait=False, num_cpus=1)
        cluster.wait_for_nodes(timeout=300)
        yield Nodes(cluster, out, cells)
    finally:
        cluster.shutdown()
