"""A campaign's prompt sets as lm-eval's tasks: which one is asked, from where, and what its prompts are.

A set that is one of our tasks as it stands is that task. One with another source or labeller becomes a task
of its own, called as the set is, in a YAML file that lm_eval finds with ``--include_path``.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from generators.campaign.campaign_settings import SetSettings
from generators.refresh.refresh_settings import LabellerSettings
from overbench_tasks.autoload import tasks_path
from overbench_tasks.errors import OverbenchError
from overbench_tasks.judge import JudgeSettings, judge_versions
from overbench_tasks.prompts.neighbour_sets import NEIGHBOURS
from overbench_tasks.prompts.refreshed import REFRESHED_FILES
from overbench_tasks.refusal import RULES_VERSION
from overbench_tasks.tables import SUFFIXES, whole_file

if TYPE_CHECKING:
    import datasets

LABELLING: Final = {
    "judge": ("judge", "overbench_judge", {"mode": "judge"}),
    "two-stage": ("judge", "overbench_judge", {}),
    "classifier": ("classifier", "overbench_classifier", {}),
}
"""Labeller -> lm-eval's name of the results, the filter, and its settings."""


_TELLING: Final = ("id", "prompt", "prompt_label", "category", "pair_id")
MEAN_CHARS: Final = 90
"""Of a prompt that is not there: about what those of overbench_hard have."""
_TASKS: Final = Path(tasks_path())


@dataclass(frozen=True)
class AskedSet:
    """A set of prompts as it is asked.

    Attributes:
        name: in the campaign.
        base: the task of ours that it is made of, with its version.
        task: its name in lm-eval.
        task_yaml: the task's file, where it is none of ours.
        limit: as lm_eval takes it.
        prompts_hash: tells its prompts, with labels and categories, from others.
        prompts: how many are asked, at most.
        mean_chars: of one.
        max_gen_toks: new tokens of a reply, at most.
        until_width: of the interval at which to stop asking; 0: nowhere.
        sides: how many prompts of each side, safe or unsafe, the set has.
        reading: the function of ours that reads it, and its arguments as JSON.
    """

    name: str
    base: str
    task: str
    task_yaml: str | None
    limit: int | None
    prompts_hash: str
    prompts: int
    mean_chars: float
    max_gen_toks: int
    until_width: float = 0.0
    sides: tuple[int, ...] = ()
    reading: tuple[str, str] = ("", "{}")

    def rows(self) -> datasets.Dataset:
        """The prompts, read once more.

        Raises:
            OverbenchError: they can't be had, or have changed.
        """
        rows = _read(self.reading)
        if _seen(rows, None)[0] != self.prompts_hash:
            raise OverbenchError("The prompts have changed since. Start the campaign again.")
        return rows

    def write(self, folder: Path) -> None:
        """Put the task's file where lm_eval is to find it."""
        if self.task_yaml is not None:
            with whole_file(folder / f"{self.task}.yaml") as file:
                file.write(self.task_yaml)


def labelled_by(labeller: LabellerSettings) -> str:
    """What tells a labeller's labels from another's, prompt and version of a judge among it.

    Raises:
        OverbenchError: a judge's settings or prompt can't be used.
    """
    told = [labeller.by, RULES_VERSION, json.dumps(labeller.by_args, sort_keys=True)]
    if labeller.by in ("judge", "two-stage"):
        settings = JudgeSettings.resolve({**labeller.by_args, "mode": labeller.by})
        told += judge_versions(settings).values()
    return " ".join(told)


def asked_set(name: str, settings: SetSettings, labeller: LabellerSettings) -> AskedSet:
    """A set with its prompts read.

    Raises:
        OverbenchError: there is no such task, its prompts can't be had, or its name is that of another task.
    """
    base = _task(settings.task)
    told: dict[str, Any] = {
        "overbench_source": absolute_source(settings.source),
        "overbench_unsafe_source": absolute_source(settings.unsafe_source),
        "overbench_revision": settings.revision,
        "overbench_until_width": settings.until_width or None,
    }
    told = {key: value for key, value in told.items() if value is not None}
    reading = (str(base["custom_dataset"]), json.dumps({**base["dataset_kwargs"], **told}))
    identity, asked, chars, sides = _seen(_read(reading), settings.limit)
    plain = AskedSet(
        *(name, f"{settings.task} {base['metadata']['version']}", settings.task, None, settings.limit),
        *(identity, asked, chars / asked, int(base["generation_kwargs"]["max_gen_toks"])),
        *(settings.until_width or 0.0, sides, reading),
    )
    made: dict[str, Any] = {}
    if told:
        made["metadata"] = {**base["metadata"], **told}
    if labeller.by != "rules":
        called, function, mode = LABELLING[labeller.by]
        step = {"function": function, **mode, **labeller.by_args}
        made["filter_list"] = [{"name": called, "filter": [step]}]
    if not made:
        return plain
    if name in _tasks():
        raise OverbenchError(
            f"sets.{name}: a task is called so, and this set isn't that task as it stands. Choose another "
            "name."
        )
    own = {"include": str(_TASKS / f"{settings.task}.yaml"), "task": name, **made}
    text = yaml.safe_dump(own, sort_keys=False, allow_unicode=True)
    return replace(plain, task=name, task_yaml=text)


def absolute_source(source: str | None) -> str | None:
    """A source that is on this machine by its full path, so that lm_eval may be started anywhere."""
    if source is None:
        return None
    path = Path(source).expanduser()
    here = path.exists() or path.name.removesuffix(".gz").endswith(SUFFIXES)
    return str(path.absolute()) if here else source


def _read(reading: tuple[str, str]) -> datasets.Dataset:
    """What the task itself would read."""
    module, _, name = reading[0].rpartition(".")
    found: datasets.Dataset = getattr(import_module(module), name)(**json.loads(reading[1]))["test"]
    return found


def _seen(rows: datasets.Dataset, limit: int | None) -> tuple[str, int, int, tuple[int, ...]]:
    """A hash of a set, how many prompts are asked and how many characters they have, prompts of each side."""
    columns = [one for one in _TELLING if one in rows.column_names]
    found, sides = hashlib.sha256(), Counter[str]()
    asked = chars = 0
    for some in rows.iter(1000):
        for row in zip(*(some[one] for one in columns), strict=True):
            found.update(json.dumps(row).encode())
        sides.update(some["prompt_label"])
        lengths = [*map(len, some["prompt"])][: None if limit is None else max(0, limit - asked)]
        asked, chars = asked + len(lengths), chars + sum(lengths)
    return found.hexdigest(), asked, chars, tuple(sides.values())


def stated_set(name: str, settings: SetSettings) -> AskedSet | None:
    """A set whose prompts are not there, by what is said of it: for an estimate, never to be asked.

    None where nothing says how many prompts it has.
    """
    base, known = _task(settings.task), NEIGHBOURS.get(settings.task)
    count = settings.prompts or (known.published if known and settings.source is None else None)
    if count is None:
        return None
    asked, tokens = min(count, settings.limit or count), int(base["generation_kwargs"]["max_gen_toks"])
    return AskedSet(name, settings.task, settings.task, None, settings.limit, "", asked, MEAN_CHARS, tokens)


def aggregations(asked: AskedSet) -> dict[str, Callable[[list[Any]], float]]:
    """Metric of a set's task -> the function that makes it of the values of all prompts."""
    named = {
        one["metric"]: str(one["aggregation"]) for one in _task(asked.base.partition(" ")[0])["metric_list"]
    }
    found = {}
    for metric, function in named.items():
        module, _, name = function.rpartition(".")
        found[metric] = getattr(import_module(module), name) if module else _LM_EVALS[name]
    return found


def mean(values: Sequence[float]) -> float:
    """lm-eval's ``aggregation: mean``."""
    return sum(values) / len(values)


_LM_EVALS: Final = {"mean": mean}


@cache
def _tasks() -> frozenset[str]:
    return frozenset(file.stem for file in _TASKS.glob("overbench*.yaml"))


def _task(name: str) -> dict[str, Any]:
    """What the file of one of our tasks says, with those it includes; of functions their names."""
    if name not in _tasks() or name in REFRESHED_FILES:
        known = sorted(_tasks() - REFRESHED_FILES.keys())
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
        if name in REFRESHED_FILES:
            hint = "For prompts that were refreshed for a target: refreshed: true."
        raise OverbenchError(f"Expected one of our tasks, got {name!r}. {hint}")
    return _yaml(_TASKS / f"{name}.yaml")


class _NamesOfFunctions(yaml.SafeLoader):
    """Reads ``!function NAME`` as the name."""


_NamesOfFunctions.add_constructor("!function", lambda loader, node: node.value)


def _yaml(file: Path) -> dict[str, Any]:
    found = yaml.load(file.read_text(encoding="utf-8"), _NamesOfFunctions)  # noqa: S506 - a SafeLoader
    included = _yaml(file.parent / found.pop("include")) if "include" in found else {}
    return {**included, **found}
