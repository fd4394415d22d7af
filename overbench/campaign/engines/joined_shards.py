"""The shards of a cell become what one lm_eval on all of its prompts would have written.

The lines of the sample logs follow one another, and the metrics are made of the values in them by the
functions that the task names, so nothing is loaded or labelled again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from statistics import stdev
from typing import Any, Final
from zipfile import ZipFile

from overbench.campaign.engines.shards import Shard, ShardStore
from overbench.campaign.task_specs import aggregations, mean
from overbench_tasks.metrics import BLOCKS
from overbench_tasks.tables import whole_file

_BY_TASK: Final = (
    "results",
    "configs",
    "versions",
    "n-shot",
    "higher_is_better",
    "n-samples",
    "task_hashes",
    "group_subtasks",
)
_HASHES: Final = ("doc_hash", "prompt_hash", "target_hash")


_number: Final = lru_cache(1000)(float)
"""Most values are 0.0 and 1.0: each once, not once for each prompt and metric."""


class _Joined:
    """What is gathered of a cell, a shard after the other.

    Of a prompt its metrics' values, as a tuple that is there once for all prompts that have the same.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.results: dict[str, Any] = {}
        self.prompts = 0
        self.seconds = 0.0
        self.values: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
        self.same: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.blocks: Counter[str] = Counter()
        self.hash = hashlib.sha256()

    def add(self, results: dict[str, Any]) -> None:
        """The results file of a shard, which may have been asked together with those of other sets."""
        counts = {name: one["effective"] for name, one in results["n-samples"].items()}
        took = float(results.get("total_evaluation_time_seconds") or 0)
        self.seconds += took * counts[self.task] / sum(counts.values())
        self.results = results
        self.blocks.update(results["configs"][self.task]["metadata"].get(BLOCKS, {}))

    def add_line(self, line: bytes) -> None:
        """A line of a sample log."""
        row = json.loads(line, parse_float=_number)
        self.prompts += 1
        names = row.get("metrics", ())
        values = tuple(tuple(one) if isinstance(one := row[name], list) else one for name in names)
        self.values[row["filter"], *names].append(self.same.setdefault(values, values))
        self.hash.update("".join(str(row.get(one, "")) for one in _HASHES).encode())

    def told(self, functions: Mapping[str, Callable[[list[Any]], float]]) -> dict[str, Any]:
        """The results of the whole."""
        found = {
            key: {self.task: value[self.task]} if key in _BY_TASK and self.task in value else value
            for key, value in self.results.items()
        }
        scores = dict(found["results"].get(self.task, {}))
        for (by, *names), rows in self.values.items():
            for place, name in enumerate(names):
                values = [row[place] for row in rows]
                scores[f"{name},{by}"] = functions[name](values)
                if functions[name] is mean and len(values) > 1:
                    scores[f"{name}_stderr,{by}"] = _mean_stderr(values)
        if "sample_len" in scores:
            scores["sample_len"] = self.prompts
        if any(names for _, *names in self.values):
            found["results"] = {self.task: scores}
        if self.blocks:
            config = found["configs"][self.task]
            told = {**config["metadata"], BLOCKS: dict(self.blocks.most_common())}
            found["configs"] = {self.task: {**config, "metadata": told}}
        found["n-samples"] = {self.task: {**found["n-samples"][self.task], "effective": self.prompts}}
        found["total_evaluation_time_seconds"] = str(self.seconds)
        if "task_hashes" in found:
            found["task_hashes"] = {self.task: self.hash.hexdigest()}
        return found


def join_shards(shards: Sequence[Shard], store: ShardStore, into: Path) -> None:
    """Write lm-eval's two files of a cell below ``into``.

    Args:
        shards: all of the cell, in their order.

    Raises:
        OverbenchError: a shard is damaged.
        OSError: they can't be written, or a shard is gone.
    """
    asked = shards[0].cell.task_spec
    joined = _Joined(asked.task)
    with store.opened(shards[0]) as first:
        log = Path(_named(first, "samples_"))
        results = Path(_named(first, "results_"))
    with whole_file(into / log) as out:
        for shard in shards:
            with store.opened(shard) as found:
                joined.add(json.loads(found.read(_named(found, "results_"))))
                with found.open(_named(found, "samples_")) as lines:
                    for line in lines:
                        joined.add_line(line)
                        out.buffer.write(line)
    with whole_file(into / results) as out:
        json.dump(joined.told(aggregations(asked)), out, indent=2, ensure_ascii=False)


def _named(found: ZipFile, start: str) -> str:
    (name,) = (one for one in found.namelist() if PurePosixPath(one).name.startswith(start))
    return name


def _mean_stderr(values: Sequence[float]) -> float:
    """Standard error of a mean, as lm-eval has it."""
    return stdev(values) / math.sqrt(len(values))
