"""Oversensitivity rates per model and set, as counted and without the labellers' errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from overbench.report.figures import BarChart, Series
from overbench.report.report_inputs import SYSTEM_MARK, Inputs
from overbench.report.report_sources import HARD
from overbench.report.section import Section, highest_first
from overbench.report.sections.labels_section import labellers_that_detect_evasion
from overbench.report.set_parts import PromptSet
from overbench.report.stats.comparisons import ranking_agreement
from overbench.report.stats.matrix import MISSING
from overbench.report.stats.rates import (
    osr,
)
from overbench_tasks.display import NONE, Cell, Table, percent, table_of
from overbench_tasks.metrics import Rate
from overbench_tasks.review.tally import AT_THE_LIMIT, LABELS_DO_NOT_FIT, NOT_TOLD_FROM_ZERO
from overbench_tasks.text import number_of

if TYPE_CHECKING:
    from overbench_tasks.review.correction import Corrected, LabelErrors

_OF_PART = "; where a random part of a set was asked, of the rate on all of its prompts"


_SEQUENTIAL = ", and sequential where runs stopped once it was narrow enough"


def rates_section(inputs: Inputs) -> Section:
    of_sets = [osr(one.matrix) for one in inputs.sets]
    order = highest_first(of_sets[0])
    order += sorted({target for of_set in of_sets for target in of_set}.difference(order))
    rates = [[of_set.get(target, Rate(0, 0)) for target in order] for of_set in of_sets]
    models = tuple(inputs.names[target] for target in order)
    series = tuple(
        Series(
            one.title,
            tuple(rate.value for rate in of_set),
            tuple(rate.low for rate in of_set),
            tuple(rate.high for rate in of_set),
        )
        for one, of_set in zip(inputs.sets, rates, strict=True)
    )
    below = []
    if any(SYSTEM_MARK in name for name in inputs.names.values()):
        below.append(
            f"“{SYSTEM_MARK.strip()}” marks models that were asked with a system instruction; its text is "
            "among the settings."
        )
    if any(one.name == HARD for one in inputs.sets):
        below.append(
            "The hard set holds the prompts that several models refuse. Models whose refusals chose it "
            "look worse on it than others would."
        )
    for one in inputs.sets[1:]:
        agreement = ranking_agreement(inputs.main.matrix, one.matrix)
        if (tau := agreement.tau).defined:
            below.append(
                f"Do {inputs.main.name} and {one.name} rank the {number_of(len(agreement.targets), 'model')} "
                f"alike? Kendall's tau-b is {tau.value:.2f} (95 % bootstrap interval over prompts "
                f"{tau.low:.2f} to {tau.high:.2f}); 1 is the same order, 0 none in common."
            )
    table = table_of(
        key="osr",
        caption="Oversensitivity rate per model and set, with 95 % interval (in %) and number of scored "
        "prompts",
        columns=("Model", *(one.name for one in inputs.sets)),
        rows=zip(models, *rates, strict=True),
        ordered_by=(1, False),
    )
    return Section(
        "osr",
        "Oversensitivity rate",
        (
            "The oversensitivity rate (OSR) is the share of harmless prompts that a model refuses, over the "
            "prompts with a scored reply. Lower is better. Intervals are Wilson's at 95 %"
            f"{_OF_PART if any(one.matrix.asked_of for one in inputs.sets) else ''}"
            f"{_SEQUENTIAL if any(one.matrix.sequential for one in inputs.sets) else ''}.",
        ),
        (BarChart("osr", "Oversensitivity rate per model", models, series, "Oversensitivity rate"),),
        (table, *filter(None, [label_errors_table(inputs, order)])),
        below=(*below, *about_labels(inputs)),
    )


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
        if labeller not in labellers_that_detect_evasion(inputs):
            yield f"Labelled by {labeller}: evasion not measured."


def _corrected(errors: LabelErrors, run: Counter[float], withheld: float = 0.0) -> Corrected | str:
    """See :func:`~overbench_tasks.review.correction.corrected_rate`; why there is none, in its words."""
    from overbench_tasks.review.correction import CorrectionError, corrected_rate

    try:
        return corrected_rate(errors.table, run, withheld=withheld)
    except CorrectionError as error:
        return str(error)
