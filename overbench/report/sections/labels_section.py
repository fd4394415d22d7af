"""Labels per model and set, withheld replies, and gaps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING, Final

from overbench.report.report_inputs import Inputs
from overbench.report.section import Section, category_name
from overbench.report.stats.matrix import MISSING, LabelCount
from overbench_tasks.display import NONE, Cell, Table, percent, shares, table_of, text
from overbench_tasks.labellers.registry import detects_evasion
from overbench_tasks.metrics import Rate
from overbench_tasks.outcomes.outcome_tables import BY
from overbench_tasks.outcomes.release_files import GAPS_FILE

if TYPE_CHECKING:
    pass

MOST_BLOCKS: Final = 10
"""Of the kinds of blocks of a model in a set, so many have a row of their own."""


def labels_section(inputs: Inputs) -> Section:
    rows = []
    seen = labellers_that_detect_evasion(inputs)
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
            "scored, and no refusals. Rules and refusal classifiers cannot see evasion: it is not measured. "
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


def labellers_that_detect_evasion(inputs: Inputs) -> set[str]:
    """The labellers that can tell an evasive reply; of outcome tables, those that did."""
    labels = (*inputs.labels, *inputs.unsafe_labels)
    did = {one.labelled_by for one in labels if one.labels["evasive"] and one.labelled_by.startswith(BY)}
    return did | {one.labelled_by for one in labels if detects_evasion(one.labelled_by)}


def _categories_table(inputs: Inputs) -> Table | None:
    """What is neither a refusal nor an answer, by category; None where there is no such reply."""
    counts = inputs.category_labels
    seen = labellers_that_detect_evasion(inputs)
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
