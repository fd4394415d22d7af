"""What a report is made from: any number of lm-eval result folders, and at most one release.

Logs become a release in a temporary folder, joined by the code that joins every release: the logs of each
task a set of prompts of their own, or, where a release is given, those of our tasks the cells that it
lacks. A report then reads releases, and some replies to quote.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from generators.release.aggregate import LoggedRelease, release_of_logs
from generators.release.read import MATRIX_FILE, Release, is_release, read_release, share_sql
from generators.release.release_inputs import Log, apart, find_logs, release_source
from generators.report.families import Families, ModelFacts
from generators.report.stats.matrix import ResponseMatrix, release_matrix
from generators.targets.naming import Aliases, TargetRecord
from generators.targets.ways_of_asking import as_known, joined
from overbench_tasks.errors import OverbenchError
from overbench_tasks.logs import sample_logs
from overbench_tasks.records import LABELS, Label

if TYPE_CHECKING:
    from overbench_tasks.review.correction import LabelErrors

ALL, HARD = "overbench", "overbench_hard"

SYSTEM_MARK = " +system"
"""What marks a configuration with a system instruction, where all have the same one."""

_SYSTEM = re.compile(r" \+system:([0-9a-f]{8})(?= |$)")


@dataclass(frozen=True)
class PromptSet:
    """One set of prompts with every target's answers to it."""

    name: str
    matrix: ResponseMatrix

    @property
    def title(self) -> str:
        """Name and size."""
        return f"{self.name} ({len(self.matrix.prompt_ids):,} prompts)"


@dataclass(frozen=True)
class LabelCount:
    """The labels of one target in one set.

    Attributes:
        labels: how many cells carry each; a cell of several replies counts by their shares.
        blocked: of the cells, how many are refused or cut off by the provider.
        conflicts: cells whose replies were not all labelled alike.
        reasons: why replies could not be scored, where a log says so.
    """

    set_name: str
    target: str
    labelled_by: str
    labels: Mapping[Label, float]
    blocked: float
    conflicts: int
    reasons: Counter[str]


@dataclass(frozen=True)
class Inputs:
    """All that a report shows.

    Attributes:
        sets: the whole set first, the hard set next, then others by name; at least one.
        texts: id -> prompt.
        or_bench: id -> OR-Bench's category, of those that have one.
        quotes: (id, target) -> a refused reply, where a log has it.
        labels: by set and target.
        settings: by target.
        label_errors: labeller -> the replies that show its errors, where there are any.
        sources: what was read, by name alone.
        notes: what a reader must know before trusting a number.
        release: what the prompts come from; None where there are only logs.
        families: what is known of checkpoints.
    """

    sets: tuple[PromptSet, ...]
    texts: Mapping[str, str]
    or_bench: Mapping[str, str]
    quotes: Mapping[tuple[str, str], str]
    labels: tuple[LabelCount, ...]
    settings: tuple[Setting, ...]
    label_errors: Mapping[str, LabelErrors]
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    release: Release | None = None
    families: Families = field(default_factory=Families)

    @property
    def main(self) -> PromptSet:
        """The set that most sections speak of."""
        return self.sets[0]

    @cached_property
    def facts(self) -> dict[str, ModelFacts]:
        """Target -> what is known of its checkpoint."""
        return {one.target.target: self.families.facts_of(one.target) for one in self.settings}

    @property
    def families_shown(self) -> tuple[str, ...]:
        """The families of all targets, in the order in which pictures give them their looks."""
        return tuple(sorted({known.family for known in self.facts.values()} - {""}, key=str.casefold))

    @cached_property
    def names(self) -> dict[str, str]:
        """Target -> its name in the report: of a local path the last part, and of a system instruction only
        that there is one, where that stays unambiguous."""
        targets = [target for one in self.sets for target in one.matrix.targets]
        shown = {target: last_part(target) for target in targets}
        if len({hashed for name in shown.values() for hashed in _SYSTEM.findall(name)}) == 1:
            shown = {target: _SYSTEM.sub(SYSTEM_MARK, name) for target, name in shown.items()}
        taken = Counter(shown.values())
        return {target: name if taken[name] == 1 else target for target, name in shown.items()}


def last_part(target: str) -> str:
    """A target's name, of a local path the last part."""
    path, comma, rest = target.partition(",")
    path, system, added = (path, "", "") if comma else target.partition(SYSTEM_MARK)
    if path.startswith(("/", "~")) or PureWindowsPath(path).is_absolute():
        path = PureWindowsPath(path).name
    return f"{path}{comma}{rest}{system}{added}"


def read_inputs(paths: Sequence[Path], aliases: Sequence[str] = (), people: Path | None = None) -> Inputs:
    """Read everything under ``paths``.

    Args:
        paths: lm-eval result folders (as ``--output_path`` had them) and at most one release.
        aliases: ``LONG NAME=short name``, as for ``overbench aggregate``.
        people: a sheet with people's labels, which shows the labeller's errors; None: the nearest labelled
            set that comes with the package.

    Raises:
        OverbenchError: a path is neither, two releases, a file that cannot be read, or one set with labels
            of two labellers.
    """
    releases = [read_release(path) for path in paths if is_release(path)]
    if len(releases) > 1:
        raise OverbenchError(
            f"Expected at most one release, got {', '.join(str(release.folder) for release in releases)}. "
            "Their prompts differ; make a report of each. overbench diff OLD NEW compares two."
        )
    given = releases[0] if releases else None
    folders = [path for path in paths if not is_release(path)]
    logs, notes = _logs(folders, Aliases(aliases), given)
    sets: list[PromptSet] = []
    texts: dict[str, str] = {}
    or_bench: dict[str, str] = {}
    quotes: dict[tuple[str, str], str] = {}
    labels: list[LabelCount] = []
    with TemporaryDirectory(prefix="overbench-report-") as folder:
        for name, made in _releases(given, logs, Path(folder)):
            matrix = release_matrix(made.release)
            sets.append(PromptSet(name, matrix))
            if given is not None and name == ALL:
                hard = made.release.prompts(hard=True, columns=("id",))["id"].to_pylist()
                sets.append(PromptSet(HARD, matrix.with_ids(hard)))
            prompts = made.release.prompts(columns=("prompt", "or_bench_category")).to_pydict()
            texts = dict(zip(matrix.prompt_ids, prompts["prompt"], strict=True)) | texts
            filed = zip(matrix.prompt_ids, prompts["or_bench_category"], strict=True)
            or_bench |= {identity: category for identity, category in filed if category is not None}
            quotes = made.quotes | quotes
            labels += _label_counts(name, made)
            notes += [
                f"{count:,} answers to prompts of {task} that the release doesn't have are left out."
                for task, count in sorted(made.strangers.items())
                if count
            ]
    sets.sort(key=lambda one: (one.name != ALL, one.name != HARD, one.name))
    return Inputs(
        tuple(one for one in sets if one.matrix.prompt_ids),
        texts,
        or_bench,
        quotes,
        tuple(sorted(labels, key=lambda count: (count.set_name, count.target))),
        tuple(run_settings(logs, given)),
        _label_errors({count.labelled_by for count in labels}, people),
        tuple(path.resolve().name for path in paths),
        (*notes, *_gaps(sets)),
        given,
    )


def _logs(folders: Sequence[Path], aliases: Aliases, given: Release | None) -> tuple[list[Log], list[str]]:
    """All logs, and notes; a target that the release knows goes by its name there, unless an alias says
    otherwise."""
    for folder in folders:
        _check_results(folder)
    known = given.targets() if given else []
    found, others = find_logs(folders, aliases)
    logs = [
        log if log.target.target != log.long_name else replace(log, target=as_known(log.target, known))
        for log in found
    ]
    logs, _, notes = apart(logs, [release_source(given, Aliases())] if given else [], aliases)
    aliases.check_used({log.long_name for log in logs})
    return logs, [*others, *notes]


def _check_results(folder: Path) -> None:
    if sample_logs(folder):
        return
    if folder.is_dir() and next(folder.rglob("results_*.json"), None):
        raise OverbenchError(
            f"{folder} has lm-eval's results but no sample logs, which hold the verdict on each prompt. "
            "Run lm_eval with --log_samples."
        )
    found = "a folder with neither" if folder.is_dir() else "a file" if folder.exists() else "nothing"
    raise OverbenchError(
        "Expected a release (a folder with release.json) or lm-eval's results (a folder with results_*.json "
        f"and samples_*.jsonl in it or below) at {folder}, found {found}. Check the path."
    )


def _releases(
    given: Release | None, logs: Sequence[Log], folder: Path
) -> Iterator[tuple[str, LoggedRelease]]:
    """A release per set of prompts. Of one that is given, the hard set is a part of the whole."""
    by_task: dict[str, list[Log]] = defaultdict(list)
    for log in logs:
        by_task[ALL if given and log.run.task == HARD else log.run.task].append(log)
    if given is not None:
        ours = by_task.pop(ALL, [])
        alone = LoggedRelease(given, {}, {}, Counter())
        yield ALL, release_of_logs(ours, folder / ALL, given) if ours else alone
    for number, (task, some) in enumerate(by_task.items()):
        yield task, release_of_logs(some, folder / str(number))


def _label_counts(name: str, made: LoggedRelease) -> list[LabelCount]:
    import duckdb

    with duckdb.connect() as connection:
        cells = connection.read_parquet(str(made.release.folder / MATRIX_FILE))
        found = [f"sum({share_sql(name, cells.columns)})" for name in (*LABELS[:-1], "blocked")]
        rows = cells.aggregate(
            f"""target, coalesce(labelled_by, ''), count(*) FILTER (conflict),
            {", ".join(f"coalesce({one}, 0)" for one in found)}, count(*) FILTER (label = 'unscored')"""
        ).fetchall()
    return [
        LabelCount(
            name,
            target,
            labelled_by,
            dict(zip(LABELS, (*shares, unscored), strict=True)),
            blocked,
            conflicts,
            made.reasons.get(target, Counter()),
        )
        for target, labelled_by, conflicts, *shares, blocked, unscored in rows
    ]


def _label_errors(labellers: Iterable[str], people: Path | None) -> dict[str, LabelErrors]:
    from overbench_tasks.review.agreement import own_errors
    from overbench_tasks.review.label_quality import nearest_errors

    if people is not None:
        return {labeller: own_errors(people, labeller) for labeller in labellers}
    nearest = {labeller: nearest_errors(labeller) for labeller in labellers}
    return {labeller: errors for labeller, errors in nearest.items() if errors is not None}


def _gaps(sets: Sequence[PromptSet]) -> Iterator[str]:
    gaps = []
    for one in sets:
        if missing := int((one.matrix.values < 0).sum()):
            share = 100 * missing / one.matrix.values.size
            gaps.append(f"{missing:,} of {one.matrix.values.size:,} answers to {one.name} ({share:.1f} %)")
    if gaps:
        yield (
            f"Missing or unscored: {', '.join(gaps)}. They are in no rate, so the models are rated on "
            "partly different prompts. The gaps of each model are among the labels."
        )


@dataclass(frozen=True)
class Setting:
    """How a target was run.

    Attributes:
        tasks: the tasks and their versions, or the release that its answers come from.
        decoding: ``greedy``, or what was sampled with; None where a release alone speaks of it.
        seconds: all its runs together; None where no log says.
    """

    target: TargetRecord
    tasks: str
    decoding: str | None = None
    seconds: float | None = None


def run_settings(logs: Sequence[Log], release: Release | None) -> list[Setting]:
    """The settings of all targets, by name."""
    by_target = defaultdict(list)
    for log in logs:
        by_target[log.target.target].append(log.run)
    settings = []
    for name, target in joined(log.target for log in logs).items():
        runs = by_target[name]
        tasks = sorted({f"{run.task} {_version(run.metadata)}" for run in runs})
        # The tasks of one lm-eval run share its time.
        seconds = {run.date: run.seconds for run in runs if run.seconds is not None}
        settings.append(Setting(target, "; ".join(tasks), _decoding(target), sum(seconds.values()) or None))
    if release is not None:
        told = f"release {release.name} {release.version}"
        settings += [Setting(one, told) for one in release.targets() if one.target not in by_target]
    return sorted(settings, key=lambda setting: setting.target.target)


def _decoding(target: TargetRecord) -> str:
    drawn = {name: value for name, value in target.drawn.items() if (name, value) != ("repeats", 1)}
    if drawn["temperature"] == 0:
        drawn.pop("temperature")
        return ", ".join(["greedy", *(f"{name} {value}" for name, value in drawn.items())])
    return ", ".join(["sampled", *(f"{name} {value}" for name, value in drawn.items())])


def _version(metadata: Mapping[str, Any]) -> str:
    source = metadata.get("overbench_source")
    # Only the last part: where a file lies on somebody's machine is nobody else's business.
    return f"version {metadata.get('version')}" + (f", from {Path(str(source)).name}" if source else "")
