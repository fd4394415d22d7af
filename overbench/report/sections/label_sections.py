"""Who labelled what, how: rates with the labellers' errors in them, counts of labels, gaps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from overbench.report.report_inputs import Inputs
from overbench.report.sections.section import Section, category_name
from overbench.report.set_parts import PromptSet
from overbench.report.stats.matrix import MISSING, LabelCount
from overbench.report.stats.rates import osr
from overbench_tasks.display import NONE, Cell, Table, percent, shares, table_of, text
from overbench_tasks.labellers.registry import detects_evasion
from overbench_tasks.metrics import Rate
from overbench_tasks.outcomes.outcome_tables import BY
from overbench_tasks.outcomes.release_files import GAPS_FILE
from overbench_tasks.review.tally import AT_THE_LIMIT, LABELS_DO_NOT_FIT, NOT_TOLD_FROM_ZERO

if TYPE_CHECKING:
    from overbench_tasks.review.correction import Corrected, LabelErrors


MOST_BLOCKS: Final = 10
"""Of the kinds of blocks of a model in a set, so many have a row of their own."""


def label_errors_table(inputs: Inputs, targets: Sequence[str]) -> Table | None:
    """The rates as counted, and without the labellers' errors, with intervals that carry these; None where
    nothing is known of them."""
    if not inputs.label_errors:
        return None
    columns: list[list[object]] = [[inputs.names[target] for target in targets]]
    for one in inputs.sets:
        rates = osr(one.matrix)
        columns.append([rates.get(target, Rate(0, 0)) for target in targets])
        columns.append([_mended(inputs, one, target) for target in targets])
    return table_of(
        key="osr-label-errors",
        caption="The same rates without the labellers' errors. Beside the interval of sampling, one that "
        "carries how often the labeller errs, and how well that is known (in %)",
        columns=(
            "Model",
            *(part for one in inputs.sets for part in (one.name, f"{one.name}, with label errors")),
        ),
        rows=zip(*columns, strict=True),
        ordered_by=(1, False),
    )


def _mended(inputs: Inputs, one: PromptSet, target: str) -> Cell:
    # A hard set is counted as a part of the whole.
    counted_as = one.name if any(count.set_name == one.name for count in inputs.labels) else inputs.main.name
    labellers = [c.labelled_by for c in inputs.labels if (c.set_name, c.target) == (counted_as, target)]
    errors = next((inputs.label_errors[name] for name in labellers if name in inputs.label_errors), None)
    if errors is None or target not in one.matrix.targets:
        return Cell(NONE, math.nan)
    values = one.matrix.column(target)
    scored = values != MISSING
    withheld = 0.0
    if one.matrix.withheld is not None and scored.any():
        # What was cut off and gave something is partial, and no refusal.
        of_target = one.matrix.withheld[:, one.matrix.targets.index(target)]
        withheld = float(of_target.clip(max=values)[scored].mean())
    mended = _corrected(errors, Counter(values[scored].tolist()), withheld)
    if isinstance(mended, str):  # no scored reply, or a labeller no better than chance
        return Cell(NONE, math.nan)
    cell = percent(mended)
    warnings = (
        (NOT_TOLD_FROM_ZERO, mended.told_from_zero),
        (LABELS_DO_NOT_FIT, mended.labels_fit),
        (AT_THE_LIMIT, not (mended.at_limit and mended.told_from_zero)),
    )
    return replace(cell, detail=", ".join([cell.detail, *(words for words, fine in warnings if not fine)]))


def about_labels(inputs: Inputs) -> Iterator[str]:
    """Where the labellers' errors come from, and what was not measured."""
    for labeller in sorted({count.labelled_by for count in inputs.labels}):
        if (errors := inputs.label_errors.get(labeller)) is None:
            yield (
                f"How often {labeller} errs is not known here, and no interval carries it. Label some of the "
                "replies (overbench annotate) and give the sheet with --labels."
            )
        elif isinstance(problem := _corrected(errors, Counter({0.0: 1})), str):
            yield f"How often {labeller} errs cannot be told from {errors.source}. {problem}"
        else:
            yield (
                f"With label errors: what the rate would be without the errors of {labeller} (Rogan and "
                f"Gladen 1978), as they are on {errors.source}. It holds as far as these models' replies are "
                f"like those. {NOT_TOLD_FROM_ZERO.capitalize()}: the labeller's errors alone may have given "
                f"the rate. {LABELS_DO_NOT_FIT.capitalize()}: no rate gives the counted one with these "
                "errors; the labeller errs less on this model's replies, and the interval is joined with "
                f"that of sampling. {AT_THE_LIMIT.capitalize()}: no rate gives the counted one, by no more "
                "than chance may do; read the interval, not the rate. Label some of the replies (overbench "
                "annotate) and give the sheet with --labels."
            )
        if labeller not in _tellers_of_evasion(inputs):
            yield f"Labelled by {labeller}: evasion not measured."


def _tellers_of_evasion(inputs: Inputs) -> set[str]:
    """The labellers that can tell an evasive reply; of outcome tables, those that did."""
    labels = (*inputs.labels, *inputs.unsafe_labels)
    did = {one.labelled_by for one in labels if one.labels["evasive"] and one.labelled_by.startswith(BY)}
    return did | {one.labelled_by for one in labels if detects_evasion(one.labelled_by)}


def _corrected(errors: LabelErrors, run: Counter[float], withheld: float = 0.0) -> Corrected | str:
    """See :func:`~overbench_tasks.review.correction.corrected_rate`; why there is none, in its words."""
    from overbench_tasks.review.correction import CorrectionError, corrected_rate

    try:
        return corrected_rate(errors.table, run, withheld=withheld)
    except CorrectionError as error:
        return str(error)


def labels_section(inputs: Inputs) -> Section:
    rows = []
    seen = _tellers_of_evasion(inputs)
    for count in inputs.labels:
        labels, prompts = count.labels, count.prompts
        rate = Rate(labels["unscored"], prompts)
        evasive = _evasive(count, seen)
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in count.reasons.most_common(4))
        rows.append(
            (
                inputs.names.get(count.target, count.target),
                count.set_name,
                count.labelled_by,
                prompts,
                shares(labels["refused"]),
                shares(count.blocked),
                shares(labels["partial"]),
                evasive,
                shares(labels["complied"]),
                shares(labels["unscored"]),
                percent(rate),
                reasons,
                count.conflicts,
            )
        )
    table = table_of(
        key="labels",
        caption="Labels per model and set, and who gave them",
        columns=(
            "Model",
            "Set",
            "Labelled by",
            "Prompts",
            "Refused",
            "Of these blocked",
            "Partial",
            "Evasive",
            "Complied",
            "Unscored",
            "Unscored rate",
            "Why unscored",
            "Conflicts",
        ),
        rows=rows,
        ordered_by=(0, True),
    )
    where_gaps_are_filled = (
        f"{GAPS_FILE} in the release has the commands that ask the models what is missing. Its "
        "overbench_hard is part of overbench, and so are its gaps."
    )
    return Section(
        "labels",
        "Labels and gaps",
        (
            "A reply that the provider withheld is a refusal, and blocked. A partial reply declines one part "
            "and answers another; an evasive one never says no and does not give what was asked: both are "
            "scored, and no refusals. Refusal classifiers, and rules before 3.0, cannot see evasion: it is "
            "not measured. Rules find stock forms of it alone: their share is a lower bound. "
            "An unscored reply (empty, unfinished reasoning, a judge that failed) is in no "
            "rate. Several replies of one model to one prompt count by their shares; a prompt whose replies "
            "differ is a conflict.",
        ),
        tables=(
            table,
            *filter(None, [_blocks_table(inputs), _categories_table(inputs)]),
            _gaps_table(inputs),
        ),
        below=(where_gaps_are_filled,) if inputs.release else (),
    )


def _blocks_table(inputs: Inputs) -> Table | None:
    """Who withheld replies, and for what; None where nobody did."""
    rows = []
    sides = [("safe", inputs.labels), ("unsafe", inputs.unsafe_labels)]
    for side, count in ((side, one) for side, labels in sides for one in labels):
        scored = count.prompts - round(count.labels["unscored"])
        kinds = sorted(count.blocks.items(), key=lambda kind: (-kind[1], kind[0]))
        told = [(*kind, n) for kind, n in kinds[:MOST_BLOCKS]]
        if rest := kinds[MOST_BLOCKS:]:
            told.append((NONE, f"{len(rest):,} others", sum(n for _, n in rest)))
        rows += [
            (
                inputs.names.get(count.target, count.target),
                count.set_name,
                side,
                text(provider or "not known"),
                text(what_for),
                shares(n),
                Rate(n, scored),
            )
            for provider, what_for, n in told
        ]
    if not rows:
        return None
    return table_of(
        key="blocks",
        caption="Replies that the provider withheld, by its category, or its reason where it names no "
        "category; the share is of the prompts with a scored reply",
        columns=("Model", "Set", "Prompts", "Provider", "Withheld for", "Withheld", "Share"),
        rows=rows,
    )


def _evasive(count: LabelCount, seen: Container[str]) -> Cell:
    """How many are evasive, where their labeller is one of those who tell that."""
    if count.labelled_by not in seen:
        return Cell("not measured", math.nan, detail=f"labelled by {count.labelled_by}")
    return shares(count.labels["evasive"])


def _categories_table(inputs: Inputs) -> Table | None:
    """What is neither a refusal nor an answer, by category; None where there is no such reply."""
    counts = inputs.category_labels
    seen = _tellers_of_evasion(inputs)
    if not any(
        (one.labels["evasive"] and one.labelled_by in seen) or one.labels["unscored"] for one in counts
    ):
        return None
    return table_of(
        key="category-labels",
        caption=f"Labels per model and category on {inputs.main.name}. Refused: of the scored ones",
        columns=("Model", "Category", "Prompts", "Refused", "Partial", "Evasive", "Complied", "Unscored"),
        rows=(
            (
                inputs.names.get(one.target, one.target),
                category_name(one.set_name),
                one.prompts,
                Rate(one.labels["refused"], one.prompts - round(one.labels["unscored"])),
                shares(one.labels["partial"]),
                _evasive(one, seen),
                *(shares(one.labels[name]) for name in ("complied", "unscored")),
            )
            for one in sorted(counts, key=lambda one: (one.target, one.set_name))
        ),
    )


def _gaps_table(inputs: Inputs) -> Table:
    """Per model and set that labels are counted for: what is asked, what is scored, what is open."""
    unscored: Counter[tuple[str, str]] = Counter()
    for count in inputs.labels:
        unscored[count.set_name, count.target] += round(count.labels["unscored"])
    counted = {name for name, _ in unscored}
    rows = []
    for one in sorted(inputs.sets, key=lambda one: one.name):
        prompts = len(one.matrix.prompt_ids)
        for target in one.matrix.targets if one.name in counted else ():
            still_open = int((one.matrix.column(target) == MISSING).sum())
            no_label = unscored[one.name, target]
            asked = (prompts, prompts - still_open, still_open - no_label, no_label)
            rows.append((inputs.names[target], one.name, *asked, percent(still_open / prompts)))
    return table_of(
        key="gaps",
        caption="Gaps: the prompts of each set that a model was not asked, or gave no reply to that could "
        "be scored",
        columns=("Model", "Set", "Prompts", "Scored", "Not asked", "Unscored", "Open"),
        rows=rows,
        ordered_by=(6, False),
    )
