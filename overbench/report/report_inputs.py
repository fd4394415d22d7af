"""What a report is made from: any number of lm-eval result folders and outcome tables, at most one release.

Logs are joined in memory by the code that joins every release: the logs of each task a set of prompts of
their own, or, where a release is given, those of our tasks the cells that it lacks. A table of outcomes adds
its models to every set that has its prompts, and is a set of its own where some of its prompts are in none.
Each set then gives its parts (:mod:`overbench.report.set_parts`), which stand here together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from overbench.release.joined_outcomes import JoinedOutcomes
from overbench.release.release_inputs import Log
from overbench.report.families import Families, ModelFacts
from overbench.report.report_sources import (
    ALL,
    HARD,
    Answers,
    Setting,
    find_answers,
    outcomes_by_set,
    run_settings,
)
from overbench.report.set_parts import PromptSet, SetParts, UnsafeSet, set_parts
from overbench.report.stats.matrix import LabelCount
from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.outcome_tables import OutcomeTable
from overbench_tasks.outcomes.release_files import Release, is_release, read_release
from overbench_tasks.outcomes.short_names import short_names
from overbench_tasks.outcomes.target_names import Aliases, TargetAlias, hashed_system_mark
from overbench_tasks.text import number_of

if TYPE_CHECKING:
    from overbench_tasks.review.correction import LabelErrors

Key = TypeVar("Key")

MUCH_UNSCORED: Final = 0.1
"""Of a target's replies to a set: the share of unscored ones above which the report begins with it."""

SYSTEM_MARK = " +system"
"""What marks a configuration with a system instruction, where all have the same one."""


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
        answers: the logs, outcome tables and refresh runs, for a section that needs more of them.
        release: what the prompts come from; None where there are only logs.
        families: what is known of checkpoints.
        parts: of a release whose prompts come from several sources that other targets answered, or from
            published outcomes, the harmless prompts of each source, by name, with those targets.
        unsafe: of a release all its unsafe prompts and then, where there are ``parts``, those of each; of
            logs and outcome tables those of each set.
        unsafe_labels: by set and target, as ``labels``.
        category_labels: of the first set, by category, as whose ``set_name`` it stands, and target.
        first_asked: the targets with which others of their checkpoints are compared; empty for those that
            were asked in the plain way.
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
    answers: Answers
    release: Release | None = None
    families: Families = field(default_factory=Families)
    parts: tuple[PromptSet, ...] = ()
    unsafe: tuple[UnsafeSet, ...] = ()
    unsafe_labels: tuple[LabelCount, ...] = ()
    category_labels: tuple[LabelCount, ...] = ()
    first_asked: frozenset[str] = frozenset()

    @property
    def main(self) -> PromptSet:
        """The set that most sections speak of."""
        return self.sets[0]

    @cached_property
    def outcomes(self) -> dict[str, JoinedOutcomes]:
        """Set -> the outcomes of all its prompts, harmless and unsafe, row by row."""
        return dict(outcomes_by_set(self.release, self.answers))

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
    given = _given_release(paths)
    folders = [path for path in paths if not is_release(path)]
    answers, notes = find_answers(folders, outcomes, Aliases(aliases, names), given)
    parts = [set_parts(name, joined, answers.logs, given) for name, joined in outcomes_by_set(given, answers)]
    sets = _ordered_sets(parts)
    labels = [count for part in parts for count in part.labels]
    inputs = Inputs(
        sets=sets,
        texts=_first_of_each(part.texts for part in parts),
        or_bench=_first_of_each(part.or_bench for part in reversed(parts)),
        quotes=_first_of_each(part.quotes for part in parts),
        labels=_by_set_and_target(labels),
        settings=tuple(run_settings(answers, given)),
        label_errors=_label_errors({count.labelled_by for count in labels}, people),
        sources=(*(path.resolve().name for path in paths), *(table.file.name for table in outcomes)),
        notes=(),
        release=given,
        parts=tuple(named for part in parts for named in part.parts if named.matrix.prompt_ids),
        unsafe=tuple(unsafe for part in parts for unsafe in part.unsafe),
        unsafe_labels=_by_set_and_target(count for part in parts for count in part.unsafe_labels),
        category_labels=next((part.category_labels for part in parts if part.name == sets[0].name), ()),
        first_asked=_targets_below(first_asked, answers.logs),
        answers=answers,
    )
    notes += [note for table in outcomes for note in table.notes]
    notes += [note for part in parts for note in part.notes]
    unscored = _much_unscored((count for part in parts for count in part.scored_labels), inputs.names)
    return replace(inputs, notes=(*unscored, *map(inputs.with_names, notes), *_gaps(sets)))


def _given_release(paths: Sequence[Path]) -> Release | None:
    """The release among the paths."""
    releases = [read_release(path) for path in paths if is_release(path)]
    if len(releases) > 1:
        raise OverbenchError(
            f"Expected at most one release, got {', '.join(str(release.folder) for release in releases)}. "
            "Their prompts differ; make a report of each. overbench diff OLD NEW compares two."
        )
    return releases[0] if releases else None


def _ordered_sets(parts: Iterable[SetParts]) -> tuple[PromptSet, ...]:
    """All sets with a harmless prompt: the whole first, the hard set next, then others by name."""
    sets = [named for part in parts for named in part.sets if named.matrix.prompt_ids]
    if not sets:
        raise OverbenchError(
            "Expected harmless prompts among the answers, found unsafe ones alone. Over-refusal is measured "
            "on harmless ones: give the logs, or outcomes, of such a set, too."
        )
    return tuple(sorted(sets, key=lambda named: (named.name != ALL, named.name != HARD, named.name)))


def _first_of_each(mappings: Iterable[Mapping[Key, str]]) -> dict[Key, str]:
    """Several mappings as one; of a key that several have, the first one's value."""
    joined: dict[Key, str] = {}
    for mapping in mappings:
        joined = {**mapping, **joined}
    return joined


def _by_set_and_target(counts: Iterable[LabelCount]) -> tuple[LabelCount, ...]:
    return tuple(sorted(counts, key=lambda count: (count.set_name, count.target)))


def _targets_below(folders: Collection[Path], logs: Sequence[Log]) -> frozenset[str]:
    """The targets of the logs below these folders."""
    resolved = {folder.resolve() for folder in folders}
    return frozenset(log.target.target for log in logs if not resolved.isdisjoint(log.run.file.parents))


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
