"""What a report is made from: any number of lm-eval result folders and outcome tables, at most one release.

Logs become a release in a temporary folder, joined by the code that joins every release: the logs of each
task a set of prompts of their own, or, where a release is given, those of our tasks the cells that it
lacks. A table of outcomes adds its models to every set that has its prompts, and is a set of its own where
some of its prompts are in none. A report then reads releases, and some replies to quote.

Unsafe prompts are apart throughout: no harmless set, and no label counted for one, holds any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from overbench.release.release_inputs import PromptSource, not_asked
from overbench.report.families import Families, ModelFacts
from overbench.report.report_sources import (
    ALL,
    HARD,
    REFRESHED,
    Setting,
    find_answers,
    ids_by_source,
    published,
    releases_of,
    run_settings,
)
from overbench.report.stats.labeller_agreement import LabellerComparison, compare_labellers
from overbench.report.stats.matrix import (
    LabelCount,
    ResponseMatrix,
    label_counts,
    release_matrix,
    unsafe_matrices,
)
from overbench.report.stats.rates import target_rates
from overbench.report.stats.trade_off import pair_matrix
from overbench_tasks.errors import OverbenchError
from overbench_tasks.metrics import Rate
from overbench_tasks.outcomes.outcome_tables import OutcomeTable
from overbench_tasks.outcomes.release_files import Release, is_release, read_release
from overbench_tasks.outcomes.short_names import short_names
from overbench_tasks.outcomes.target_names import Aliases, TargetAlias, hashed_system_mark
from overbench_tasks.text import number_of

if TYPE_CHECKING:
    import pyarrow as pa

    from overbench_tasks.review.correction import LabelErrors

MUCH_UNSCORED: Final = 0.1
"""Of a target's replies to a set: the share of unscored ones above which the report begins with it."""
MADE_FOR_THEMSELVES: Final = (
    "refreshed holds the prompts of refresh runs, of which each model was asked those that were made for it "
    "alone: rates on it are high by construction and compare no models. Make a release of them (overbench "
    "aggregate), and ask all models."
)
_TOLD: Final = ("id", "prompt", "or_bench_category")

SYSTEM_MARK = " +system"
"""What marks a configuration with a system instruction, where all have the same one."""


@dataclass(frozen=True)
class PromptSet:
    """One set of prompts with every target's answers to it."""

    name: str
    matrix: ResponseMatrix

    @property
    def title(self) -> str:
        """Name and size."""
        return f"{self.name} ({_asked(self.matrix, 'prompt')})"


def _asked(matrix: ResponseMatrix, noun: str) -> str:
    """How many prompts a set has; where all targets were asked a part of it, of how many."""
    prompts, wholes = len(matrix.prompt_ids), {matrix.asked_of.get(target, 0) for target in matrix.targets}
    if len(wholes) == 1 and max(wholes) > prompts:
        return f"{prompts:,} of {number_of(max(wholes), noun)}"
    return number_of(prompts, noun)


@dataclass(frozen=True)
class UnsafeSet:
    """One set of unsafe prompts, with the answers of the targets that have any to it.

    Attributes:
        refused: the share of each cell's scored replies that refuse.
        complied: of the same prompts and targets, the share that complies, wholly or in part. An evasive
            reply does neither.
        right: see :func:`~overbench.report.stats.trade_off.pair_matrix`; None without pairs.
    """

    name: str
    refused: ResponseMatrix
    complied: ResponseMatrix
    right: ResponseMatrix | None = None

    @property
    def title(self) -> str:
        """Name and size."""
        return f"{self.name} ({_asked(self.refused, 'unsafe prompt')})"

    def correct_refusals(self) -> dict[str, Rate]:
        """Target -> refused (blocked included) of its scored replies."""
        return target_rates(self.refused)

    def with_ids(self, name: str, prompt_ids: Iterable[str]) -> UnsafeSet:
        """The part of it that has only these prompts, and the targets that answered any."""
        ids = set(prompt_ids)
        refused, complied = (one.with_ids(ids).answered() for one in (self.refused, self.complied))
        return UnsafeSet(name, refused, complied, self.right and self.right.with_ids(ids).answered())

    def harmful_compliance(self) -> dict[str, Rate]:
        """Target -> complied or partial, of its scored replies."""
        return target_rates(self.complied)


@dataclass(frozen=True)
class Inputs:
    """All that a report shows.

    Attributes:
        sets: the whole set first, the hard set next, then others by name, of a release those that others
            published; at least one.
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
        parts: of a release whose prompts come from several sources that other targets answered, or from
            published outcomes, the harmless prompts of each source, by name, with those targets.
        unsafe: of a release all its unsafe prompts and then, where there are ``parts``, those of each; of
            logs and outcome tables those of each set.
        unsafe_labels: by set and target, as ``labels``.
        category_labels: of the first set, by category, as whose ``set_name`` it stands, and target.
        labellers: what several labellers make of the logs' replies; None where no log has any.
        first_asked: the targets with which others of their checkpoints are compared; empty for those that
            were asked in the plain way.
        attributed: what refresh runs attributed, see :func:`~overbench.report.run_words.attributed_matrix`.
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
    parts: tuple[PromptSet, ...] = ()
    unsafe: tuple[UnsafeSet, ...] = ()
    unsafe_labels: tuple[LabelCount, ...] = ()
    category_labels: tuple[LabelCount, ...] = ()
    labellers: LabellerComparison | None = None
    first_asked: frozenset[str] = frozenset()
    attributed: ResponseMatrix | None = None

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
        """Target, or checkpoint, -> its name in the report: a short one, and of a system instruction only
        that there is one, where all have the same."""
        targets = {target for one in self.sets for target in one.matrix.targets}
        targets |= {target for one in self.unsafe for target in one.refused.targets}
        targets |= set(self.attributed.targets if self.attributed else ())
        targets |= {name for one in self.settings for name in (one.target.target, one.target.checkpoint)}
        shown = short_names(targets.union(*self.main.matrix.source_targets))
        records = [one.target for one in self.settings]
        marks = {mark for record in records if (mark := hashed_system_mark(record))}
        if len(used := [mark for mark in marks if any(mark in name for name in shown.values())]) == 1:
            shown = {target: name.replace(used[0], SYSTEM_MARK) for target, name in shown.items()}
        return shown

    def with_names(self, text: str) -> str:
        """A text that names checkpoints, with their names in the report."""
        checkpoints = {one.target.checkpoint for one in self.settings}
        for checkpoint in sorted(checkpoints, key=len, reverse=True):
            text = text.replace(checkpoint, self.names[checkpoint])
        return text


def read_inputs(
    paths: Sequence[Path],
    aliases: Sequence[str] = (),
    people: Path | None = None,
    outcomes: Sequence[OutcomeTable] = (),
    first_asked: Collection[Path] = (),
    names: Mapping[str, TargetAlias] | None = None,
) -> Inputs:
    """Read everything under ``paths``, and the tables.

    Args:
        paths: lm-eval result folders (as ``--output_path`` had them), refresh runs and at most one release.
        aliases: ``LONG NAME=short name``, as for ``overbench aggregate``.
        people: a sheet with people's labels, which shows the labeller's errors; None: the nearest labelled
            set that comes with the package.
        outcomes: tables of outcomes from elsewhere.
        first_asked: folders, below ``paths``, of the logs of :attr:`Inputs.first_asked`.
        names: what targets are called, by their keys.

    Raises:
        OverbenchError: a path is neither, two releases, a file that cannot be read, one set with labels
            of two labellers, or no harmless prompt in all of it.
    """
    releases = [read_release(path) for path in paths if is_release(path)]
    if len(releases) > 1:
        raise OverbenchError(
            f"Expected at most one release, got {', '.join(str(release.folder) for release in releases)}. "
            "Their prompts differ; make a report of each. overbench diff OLD NEW compares two."
        )
    given = releases[0] if releases else None
    folders = [path for path in paths if not is_release(path)]
    answers, notes = find_answers(folders, outcomes, Aliases(aliases, names), given)
    logs = answers.logs
    attributed = attributed_words(answers.runs)
    notes += [note for table in outcomes for note in table.notes]
    first = {folder.resolve() for folder in first_asked}
    sets: list[PromptSet] = []
    parts: list[PromptSet] = []
    unsafe: list[UnsafeSet] = []
    texts: dict[str, str] = {}
    or_bench: dict[str, str] = {}
    quotes: dict[tuple[str, str], str] = {}
    labels: dict[bool, list[LabelCount]] = {False: [], True: []}
    counted: list[LabelCount] = []
    of_categories: dict[str, list[LabelCount]] = {}
    with TemporaryDirectory(prefix="overbench-report-") as folder:
        for name, made in releases_of(given, answers, Path(folder)):
            if name == REFRESHED:
                notes.append(MADE_FOR_THEMSELVES)
            asking = logs if given and name == ALL else [log for log in logs if log.run.task == name]
            sides = {
                "safe": made.release.prompts(columns=_TOLD),
                "unsafe": made.release.unsafe_prompts(_TOLD),
            }
            told = {side: rows for side, rows in sides.items() if rows is not None}
            left_out = {
                side: not_asked(asking, rows["prompt"].to_pylist(), side) for side, rows in told.items()
            }
            matrix = release_matrix(made.release).with_not_asked(left_out["safe"])
            sets.append(PromptSet(name, matrix if name == ALL and given else matrix.answered()))
            both = unsafe_matrices(made.release)
            of_release = []
            if both is not None:
                refused, complied = (one.with_not_asked(left_out["unsafe"]) for one in both)
                of_release.append(UnsafeSet(name, refused, complied, pair_matrix(made.release)))
            by_source: dict[str, list[str]] = {}
            if given is not None and name == ALL:
                hard = made.release.prompts(hard=True, columns=("id",))["id"].to_pylist()
                sets.append(PromptSet(HARD, matrix.with_ids(hard)))
                by_source = ids_by_source(made.release)
                asked = {source: matrix.with_ids(ids).answered() for source, ids in by_source.items()}
                if len({one.targets for one in asked.values()}) < 2 and not published(given):
                    by_source = {}  # Prompts from several files, put to the same targets, are one set.
                for source, ids in by_source.items():
                    parts.append(PromptSet(source, asked[source]))
                    sets += parts[-1:] if source in published(given) else []
                    of_release += [one.with_ids(source, ids) for one in of_release[:1]]
            unsafe += [one for one in of_release if one.refused.prompt_ids]
            for rows in told.values():
                ids = rows["id"].to_pylist()
                texts = dict(zip(ids, rows["prompt"].to_pylist(), strict=True)) | texts
                filed = zip(ids, rows["or_bench_category"].to_pylist(), strict=True)
                or_bench |= {identity: category for identity, category in filed if category is not None}
            quotes = made.quotes | quotes
            for side in (False, True) if made.release.has_unsafe else (False,):
                cells = made.release.matrix(unsafe=side)
                labels[side] += (whole := label_counts(name, cells))
                counted += _counts_of_parts(cells, by_source) if by_source else whole
                if not side:
                    of_categories[name] = list(_counts_of_parts(cells, _by_category(matrix)))
            notes += [
                f"Left out: {number_of(count, 'answer')} to prompts of {task} that the release doesn't have."
                for task, count in sorted(made.strangers.items())
                if count
            ]
    sets = [one for one in sets if one.matrix.prompt_ids]
    sets.sort(key=lambda one: (one.name != ALL, one.name != HARD, one.name))
    if not sets:
        raise OverbenchError(
            "Expected harmless prompts among the answers, found unsafe ones alone. Over-refusal is measured "
            "on harmless ones: give the logs, or outcomes, of such a set, too."
        )
    found = Inputs(
        tuple(sets),
        texts,
        or_bench,
        quotes,
        tuple(sorted(labels[False], key=lambda count: (count.set_name, count.target))),
        tuple(run_settings(answers, given)),
        _label_errors({count.labelled_by for count in labels[False]}, people),
        (*(path.resolve().name for path in paths), *(table.file.name for table in outcomes)),
        (),
        given,
        parts=tuple(one for one in parts if one.matrix.prompt_ids),
        unsafe=tuple(unsafe),
        unsafe_labels=tuple(sorted(labels[True], key=lambda count: (count.set_name, count.target))),
        category_labels=tuple(of_categories.get(sets[0].name, ())),
        labellers=compare_labellers(logs),
        attributed=attributed,
        first_asked=frozenset(
            log.target.target for log in logs if not first.isdisjoint(log.run.file.parents)
        ),
    )
    notes = [*_much_unscored(counted, found.names), *map(found.with_names, notes), *_gaps(sets)]
    return replace(found, notes=tuple(notes))


def attributed_words(runs: Sequence[PromptSource]) -> ResponseMatrix | None:
    """See :func:`~overbench.report.run_words.attributed_matrix`; None without runs."""
    if not runs:
        return None
    from overbench.report.run_words import attributed_matrix

    return attributed_matrix(runs)


def _by_category(matrix: ResponseMatrix) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for identity, category in zip(matrix.prompt_ids, matrix.categories, strict=True):
        if category is not None:
            found.setdefault(category, []).append(identity)
    return dict(sorted(found.items()))


def _counts_of_parts(cells: pa.Table, parts: Mapping[str, Sequence[str]]) -> Iterator[LabelCount]:
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, ids in parts.items():
        yield from label_counts(name, cells.filter(pc.is_in(cells["id"], pa.array(ids, pa.string()))))


def _much_unscored(counts: Iterable[LabelCount], names: Mapping[str, str]) -> Iterator[str]:
    """Which targets are rated on much less than they were asked."""
    for one in counts:
        if (unscored := one.labels["unscored"]) > MUCH_UNSCORED * one.prompts:
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in one.reasons.most_common(4))
            yield (
                f"{names.get(one.target, one.target)} on {one.set_name}: {unscored:,.0f} of "
                f"{number_of(one.prompts, 'reply')} ({100 * unscored / one.prompts:.1f} %) could not be "
                f"scored{f' ({reasons})' if reasons else ''}. They are in no rate; its rates speak of the "
                f"other {one.prompts - round(unscored):,} alone."
            )


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
            gaps.append(
                f"{missing:,} of {number_of(one.matrix.values.size, 'answer')} to {one.name} ({share:.1f} %)"
            )
    if gaps:
        yield (
            f"Missing or unscored: {', '.join(gaps)}. They are in no rate, so the models are rated on "
            "partly different prompts. The gaps of each model are among the labels."
        )
