"""Joins logs and a release into the sets of a report: see :mod:`generators.report.report_inputs`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from generators.release.read import Release
from generators.report.report_inputs import (
    ALL,
    HARD,
    Inputs,
    LabelCount,
    PromptSet,
    PromptText,
    Setting,
    joined,
)
from generators.report.report_logs import Run, Sample, read_runs, read_samples
from generators.targets.naming import Aliases, TargetRecord, name_target, public_arguments
from generators.targets.naming import joined as joined_targets
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts import normalised, prompt_id
from overbench_tasks.records import Label

if TYPE_CHECKING:
    from generators.report.stats.matrix import ResponseMatrix


@dataclass
class _Cell:
    labels: list[Label] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@dataclass
class _LogSet:
    """What the logs say of one set: who labelled it, and its cells by prompt and target."""

    labelled_by: str
    file: Path
    ids: dict[str, None] = field(default_factory=dict)
    cells: dict[tuple[str, str], _Cell] = field(default_factory=lambda: defaultdict(_Cell))


class Collector:
    """Reads logs beside a release, if there is one, and gives everything joined."""

    def __init__(self, release: Release | None, aliases: Sequence[str]) -> None:
        self._release = release
        self._aliases = Aliases(aliases)
        self._prompts: dict[str, PromptText] = {}
        self._ids: dict[str, str] = {}
        self._sets: dict[str, _LogSet] = {}
        self._replies: dict[tuple[str, str], str] = {}
        self._runs: dict[str, list[Run]] = defaultdict(list)
        self._strangers: Counter[str] = Counter()
        self._known: dict[str, str] = {}
        self._release_targets: list[TargetRecord] = []
        if release is not None:
            self._read_prompts(release)
            self._release_targets = release.targets()
            self._known = {_long_name(target): target.target for target in self._release_targets}

    def _read_prompts(self, release: Release) -> None:
        columns = ("id", "prompt", "category", "features", "source_targets", "or_bench_category")
        for row in release.prompts().select(columns).to_pylist():
            self._ids[normalised(row["prompt"])] = row["id"]
            self._prompts[row["id"]] = PromptText(
                row["id"],
                row["prompt"],
                row["category"],
                tuple(row["features"] or ()),
                tuple(row["source_targets"] or ()),
                row["or_bench_category"],
            )

    def read_logs(self, folders: Sequence[Path]) -> None:
        """Add all logs in the folders.

        Raises:
            OverbenchError: see :func:`generators.report.report_inputs.read_inputs`.
        """
        runs = read_runs(folders, self._aliases) if folders else []
        self._aliases.check_used({run.log.long_name for run in runs})
        for run in runs:
            target = self._target(run)
            self._runs[target.target].append(replace(run, log=replace(run.log, target=target)))
            log_set = self._set_of(run)
            # A release knows its prompts; of ours, a log of another version may hold others.
            closed = self._release is not None and run.log.run.task in (ALL, HARD)
            for sample in read_samples(run):
                identity = self._id(sample, closed)
                if identity is None:
                    self._strangers[run.log.run.task] += 1
                    continue
                log_set.ids[identity] = None
                cell = log_set.cells[identity, target.target]
                cell.labels += [verdict.label for verdict in sample.verdicts]
                cell.reasons += [v.reason for v in sample.verdicts if v.label == "unscored"]
                if any(verdict.label == "refused" for verdict in sample.verdicts):
                    self._replies.setdefault((identity, target.target), sample.reply)

    def _target(self, run: Run) -> TargetRecord:
        """The run's target, by the name that the release has for it unless an alias says otherwise."""
        target, log = run.log.target, run.log
        if target.target != log.long_name:
            return target
        shown = replace(target, model_args=public_arguments(target.model_args))
        name = self._known.get(log.long_name) or self._known.get(_long_name(shown))
        known = next((one for one in self._release_targets if one.target == name), None)
        return replace(target, target=known.target, checkpoint=known.checkpoint) if known else target

    def _set_of(self, run: Run) -> _LogSet:
        labelled_by = run.log.run.labelled_by
        log_set = self._sets.setdefault(run.log.run.task, _LogSet(labelled_by, run.log.run.file))
        if log_set.labelled_by != labelled_by:
            raise OverbenchError(
                f"{run.log.run.task} was labelled by {log_set.labelled_by!r} in {log_set.file} and by "
                f"{labelled_by!r} in {run.log.run.file}: their rates don't compare. Make a report of each, "
                "or label the replies anew: overbench aggregate --relabel, then overbench report on the "
                "release."
            )
        return log_set

    def _id(self, sample: Sample, closed: bool) -> str | None:
        text = normalised(sample.prompt)
        identity = self._ids.get(text)
        if identity is None and not closed:
            identity = self._ids[text] = prompt_id(sample.prompt)
            self._prompts[identity] = PromptText(identity, sample.prompt, sample.category, sample.features)
        return identity

    def inputs(self, sources: Sequence[str]) -> Inputs:
        """Everything joined; ``sources`` are the names of what was read."""
        release = _ReleaseSets(self._release, self._prompts) if self._release is not None else None
        sets: list[PromptSet] = []
        counts: list[LabelCount] = []
        if release is not None:
            self._check_labeller(release)
            added = release.lacking(self._of_both_sets())
            whole = release.with_cells({key: joined(cell.labels)[0] for key, cell in added.items()})
            sets += [PromptSet(ALL, whole), PromptSet(HARD, whole.with_ids(release.hard_ids))]
            counts += release.counts + _counts(ALL, self._labelled_by(), added)
        for name, log_set in self._sets.items():
            if release is not None and name in (ALL, HARD):
                continue
            cells = [(*key, joined(cell.labels)[0]) for key, cell in log_set.cells.items()]
            sets.append(PromptSet(name, self._matrix(log_set, cells)))
            counts += _counts(name, log_set.labelled_by, log_set.cells)
        sets.sort(key=lambda one: (one.name != ALL, one.name != HARD, one.name))
        return Inputs(
            tuple(one for one in sets if one.matrix.prompt_ids),
            self._prompts,
            self._replies,
            tuple(sorted(counts, key=lambda count: (count.set_name, count.target))),
            tuple(self._settings()),
            tuple(sources),
            tuple(self._notes(sets)),
            self._release,
        )

    def _of_both_sets(self) -> dict[tuple[str, str], _Cell]:
        """The logged cells of the whole set and of the hard one, which repeats prompts of the whole."""
        cells: dict[tuple[str, str], _Cell] = defaultdict(_Cell)
        for name in (ALL, HARD):
            for key, cell in self._sets[name].cells.items() if name in self._sets else ():
                cells[key].labels += cell.labels
                cells[key].reasons += cell.reasons
        return cells

    def _matrix(self, log_set: _LogSet, cells: list[tuple[str, str, Label]]) -> ResponseMatrix:
        from generators.report.stats.matrix import matrix_from_rows

        rows = [
            {
                "id": prompt.id,
                "category": prompt.category,
                "features": list(prompt.features),
                "source_targets": list(prompt.source_targets),
            }
            for prompt in map(self._prompts.__getitem__, sorted(log_set.ids))
        ]
        return matrix_from_rows(rows, cells)

    def _labelled_by(self) -> str:
        return next((self._sets[name].labelled_by for name in (ALL, HARD) if name in self._sets), "")

    def _check_labeller(self, release: _ReleaseSets) -> None:
        for name in (ALL, HARD):
            log_set = self._sets.get(name)
            if log_set and release.labellers and log_set.labelled_by not in release.labellers:
                raise OverbenchError(
                    f"The release is labelled by {', '.join(sorted(release.labellers))}, and "
                    f"{log_set.file} by {log_set.labelled_by}: their rates don't compare. Aggregate anew "
                    "with --relabel and this log, or make a report of each."
                )

    def _settings(self) -> list[Setting]:
        settings = []
        for name, target in joined_targets(
            [run.log.target for runs in self._runs.values() for run in runs]
        ).items():
            runs = self._runs[name]
            tasks = sorted({f"{run.log.run.task} {run.version}" for run in runs})
            decodings = sorted({run.decoding for run in runs})
            # The tasks of one lm-eval run share its time.
            seconds = {run.log.run.date: run.seconds for run in runs if run.seconds is not None}
            settings.append(
                Setting(target, "; ".join(tasks), "; ".join(decodings), sum(seconds.values()) or None)
            )
        if self._release is not None:
            told = f"release {self._release.name} {self._release.version}"
            settings += [Setting(one, told) for one in self._release_targets if one.target not in self._runs]
        return sorted(settings, key=lambda setting: setting.target.target)

    def _notes(self, sets: Sequence[PromptSet]) -> list[str]:
        notes = [
            f"{count:,} answers to prompts of {task} that the release doesn't have are left out."
            for task, count in sorted(self._strangers.items())
        ]
        gaps = []
        for one in sets:
            if missing := int((one.matrix.values < 0).sum()):
                share = 100 * missing / one.matrix.values.size
                gaps.append(
                    f"{missing:,} of {one.matrix.values.size:,} answers to {one.name} ({share:.1f} %)"
                )
        if gaps:
            notes.append(
                f"Missing or unscored: {', '.join(gaps)}. They are in no rate, so the models are rated on "
                "partly different prompts. The gaps of each model are among the labels."
            )
        return notes


def _long_name(target: TargetRecord) -> str:
    """The name of a target before aliases, as far as its arguments tell."""
    if target.model is None:
        return target.target
    chat = target.apply_chat_template is not False
    return name_target(target.model, target.model_args or "", target.system_instruction, chat).target


def _counts(name: str, labelled_by: str, cells: dict[tuple[str, str], _Cell]) -> list[LabelCount]:
    counts: dict[str, LabelCount] = {}
    conflicts: Counter[str] = Counter()
    for (_, target), cell in cells.items():
        count = counts.setdefault(target, LabelCount(name, target, labelled_by, Counter(), 0, Counter()))
        label, conflict = joined(cell.labels)
        count.labels[label] += 1
        count.reasons.update(cell.reasons)
        conflicts[target] += conflict
    return [replace(count, conflicts=conflicts[target]) for target, count in counts.items()]


class _ReleaseSets:
    """The matrix of a release, to which logs can add what it lacks."""

    def __init__(self, release: Release, prompts: dict[str, PromptText]) -> None:
        from generators.report.stats.matrix import release_matrix

        self.matrix = release_matrix(release)
        self.hard_ids = release.prompts(hard=True)["id"].to_pylist()
        rows = self._rows = release.matrix()
        grouped: dict[tuple[str, str], LabelCount] = {}
        tallies = rows.group_by(["target", "labelled_by", "label", "conflict"]).aggregate([("id", "count")])
        for row in tallies.to_pylist():
            key = row["target"], row["labelled_by"] or ""
            count = grouped.setdefault(key, LabelCount(ALL, *key, Counter(), 0, Counter()))
            count.labels[row["label"]] += row["id_count"]
            if row["conflict"]:
                grouped[key] = replace(count, conflicts=count.conflicts + row["id_count"])
        self.counts = list(grouped.values())
        self.labellers = {count.labelled_by for count in self.counts if count.labelled_by}

    def lacking(self, cells: dict[tuple[str, str], _Cell]) -> dict[tuple[str, str], _Cell]:
        """Those of the cells that the release doesn't have, not even unscored."""
        import pyarrow as pa
        import pyarrow.compute as pc

        targets = pa.array(sorted({target for _, target in cells}), type=pa.string())
        rows = self._rows.filter(pc.is_in(self._rows["target"], value_set=targets))
        known = set(zip(rows["id"].to_pylist(), rows["target"].to_pylist(), strict=True))
        return {key: cell for key, cell in cells.items() if key not in known}

    def with_cells(self, labels: dict[tuple[str, str], Label]) -> ResponseMatrix:
        """The matrix with these cells set, in new columns where their targets are new."""
        import numpy as np

        from generators.report.stats.matrix import CELL_VALUES, MISSING

        matrix = self.matrix
        added = sorted({target for _, target in labels} - set(matrix.targets))
        targets = (*matrix.targets, *added)
        blank = np.full((len(matrix.prompt_ids), len(added)), MISSING, dtype=np.int8)
        values = np.hstack([matrix.values, blank])
        rows = {identity: row for row, identity in enumerate(matrix.prompt_ids)}
        columns = {target: column for column, target in enumerate(targets)}
        for (identity, target), label in labels.items():
            values[rows[identity], columns[target]] = CELL_VALUES[label]
        return replace(matrix, targets=targets, values=values)
