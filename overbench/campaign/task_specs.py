"""A campaign's prompt sets as lm-eval's tasks: which one is asked, from where, and what its prompts are.

A set that is one of our tasks as it stands is that task. One with another source or labeller, or of which a
part is asked, becomes a task of its own, called as the set is, in a YAML file that lm_eval finds with
``--include_path``.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from generators.targets.labeller_settings import LabellerSettings
from overbench.campaign.campaign_settings import SetSettings
from overbench_tasks.autoload import tasks_path
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.neighbour_sets import NEIGHBOURS
from overbench_tasks.prompts.refreshed import REFRESHED_FILES
from overbench_tasks.refusal import RULES_VERSION
from overbench_tasks.tables import SUFFIXES, whole_file

if TYPE_CHECKING:
    import datasets

PART_FACTS: Final = ("limit", "sample_seed", "until_width")
"""Of a cell: what :func:`part_of` may say. A cell's key is made of these, so stop_at_ci_width keeps the name
that it has in cells that are finished."""
_TELLING: Final = ("id", "prompt", "prompt_label", "category", "pair_id")
MEAN_CHARS: Final = 90
"""Of a prompt that is not there: about what those of overbench_hard have."""
_TASKS: Final = Path(tasks_path())


@dataclass(frozen=True)
class TaskSpec:
    """A set of prompts as it is asked.

    Attributes:
        name: in the campaign.
        base: the task of ours that it is made of, with its version.
        task: its name in lm-eval.
        task_yaml: the task's file, where it is none of ours.
        part: which part of the set is asked: :func:`part_of`.
        prompts_hash: tells its prompts, with labels and categories, from others; of a part that is drawn
            those that are drawn.
        prompts: how many are asked, at most.
        mean_chars: of one.
        max_gen_toks: new tokens of a reply, at most.
        stop_at_ci_width: of the interval at which to stop asking; 0: nowhere.
        sides: how many prompts of each side, safe or unsafe, the whole set has.
        reading: the function of ours that reads it, and its arguments as JSON.
    """

    name: str
    base: str
    task: str
    task_yaml: str | None
    part: Mapping[str, Any]
    prompts_hash: str
    prompts: int
    mean_chars: float
    max_gen_toks: int
    stop_at_ci_width: float = 0.0
    sides: tuple[int, ...] = ()
    reading: tuple[str, str] = ("", "{}")

    @property
    def drawn_of(self) -> int:
        """How many prompts the whole set has, where fewer were drawn; else 0."""
        return sum(self.sides) if sum(self.sides) > self.prompts else 0

    def rows(self) -> datasets.Dataset:
        """The prompts, read once more.

        Raises:
            OverbenchError: they can't be had, or have changed.
        """
        rows = _read(self.reading)
        if _seen(rows).prompts_hash != self.prompts_hash:
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
        OverbenchError: the labeller's settings or prompt can't be used.
    """
    kind = labeller.kind
    apart = kind.labels_apart(kind.settings(labeller.by_args))
    return " ".join([labeller.by, RULES_VERSION, json.dumps(labeller.by_args, sort_keys=True), *apart])


def part_of(settings: SetSettings) -> dict[str, Any]:
    """What the settings say of the part of a set that is asked, as it tells cells apart."""
    seed = None if settings.limit is None else settings.sample_seed or 0
    told = {"sample_seed": seed, "until_width": settings.stop_at_ci_width or None}
    return {"limit": settings.limit, **{key: value for key, value in told.items() if value is not None}}


def task_spec(name: str, settings: SetSettings, labeller: LabellerSettings) -> TaskSpec:
    """A set with its prompts read.

    Raises:
        OverbenchError: there is no such task, its prompts can't be had, or its name is that of another task.
    """
    base = _task(settings.task)
    source: dict[str, Any] = {
        "overbench_source": absolute_source(settings.source),
        "overbench_unsafe_source": absolute_source(settings.unsafe_source),
        "overbench_revision": settings.revision,
    }
    part: dict[str, Any] = {
        "overbench_sample": settings.limit,
        "overbench_stop_at_ci_width": settings.stop_at_ci_width or None,
    }
    if any(part.values()):
        part["overbench_sample_seed"] = settings.sample_seed or 0
    told = {key: value for key, value in {**source, **part}.items() if value is not None}
    reading = (str(base["custom_dataset"]), json.dumps({**base["dataset_kwargs"], **told}))
    seen = _seen(_read(reading))
    plain = TaskSpec(
        name=name,
        base=f"{settings.task} {base['metadata']['version']}",
        task=settings.task,
        task_yaml=None,
        part=part_of(settings),
        prompts_hash=seen.prompts_hash,
        prompts=seen.prompts,
        mean_chars=seen.chars / seen.prompts,
        max_gen_toks=int(base["generation_kwargs"]["max_gen_toks"]),
        stop_at_ci_width=settings.stop_at_ci_width or 0.0,
        sides=seen.sides,
        reading=reading,
    )
    made: dict[str, Any] = {}
    if told:
        made["metadata"] = {**base["metadata"], **told}
    if labeller.by != "rules":
        made["filter_list"] = [labeller.kind.filter_step(labeller.by_args)]
    if not made:
        return plain
    task = name
    if name == settings.task and labeller.by == "rules" and not any(source.values()):
        task = f"{name}_sample"
    elif name in _tasks():
        raise OverbenchError(
            f"sets.{name}: a task is called so, and this set isn't that task as it stands. Choose another "
            "name."
        )
    own = {"include": str(_TASKS / f"{settings.task}.yaml"), "task": task, **made}
    text = yaml.safe_dump(own, sort_keys=False, allow_unicode=True)
    return replace(plain, task=task, task_yaml=text)


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


class _Seen(NamedTuple):
    """What a set holds: a hash of its prompts, how many are asked and how many characters they have, and how
    many of each side there are in the whole set."""

    prompts_hash: str
    prompts: int
    chars: int
    sides: tuple[int, ...]


def _seen(rows: datasets.Dataset) -> _Seen:
    columns = [one for one in _TELLING if one in rows.column_names]
    found, sides, chars = hashlib.sha256(), Counter[str](), 0
    for some in rows.iter(1000):
        for row in zip(*(some[one] for one in columns), strict=True):
            found.update(json.dumps(row).encode())
        sides.update(some["prompt_label"])
        chars += sum(map(len, some["prompt"]))
    whole = json.loads(rows.info.description or "{}").get("overbench_asked_of", sides)
    return _Seen(found.hexdigest(), len(rows), chars, tuple(whole.values()))


def stated_set(name: str, settings: SetSettings) -> TaskSpec | None:
    """A set whose prompts are not there, by what is said of it: for an estimate, never to be asked.

    None where nothing says how many prompts it has.
    """
    base, known = _task(settings.task), NEIGHBOURS.get(settings.task)
    count = settings.prompts or (known.published if known and settings.source is None else None)
    if count is None:
        return None
    asked, tokens = min(count, settings.limit or count), int(base["generation_kwargs"]["max_gen_toks"])
    part = part_of(settings)
    return TaskSpec(name, settings.task, settings.task, None, part, "", asked, MEAN_CHARS, tokens)


def aggregations(asked: TaskSpec) -> dict[str, Callable[[list[Any]], float]]:
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
