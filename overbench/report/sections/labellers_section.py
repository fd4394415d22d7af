"""Labellers side by side: what plain keywords, our rules and other labellers make of the same replies."""

from __future__ import annotations

from overbench.report.report_inputs import Inputs
from overbench.report.section import Section
from overbench.report.stats.labeller_agreement import LabellerComparison, compare_labellers, refusal_rate
from overbench_tasks.display import NONE, Cell, Table, percent, table_of, text
from overbench_tasks.text import number_of, shorten, visible

REPLY_CHARS = 400


def labellers_section(inputs: Inputs) -> Section | None:
    """None where no log holds replies."""
    if (found := compare_labellers(inputs.answers.logs)) is None:
        return None
    paragraphs = (
        "The same replies, read by plain keywords (a stock phrase of refusal anywhere in the reply, as "
        "OR-Bench has it), by our rules, and by whoever else labelled them: the filters of the logs, and "
        "files that overbench rescore wrote beside them. Refused is a full refusal; keywords know no partial "
        "one.",
        "Agreement is on refused or partial against the rest, over all replies that both could score. Its "
        "interval treats replies as drawn one by one, and is too narrow where models answer alike.",
    )
    parted = (
        f"{number_of(found.parted_in_all, 'reply')} that some labeller calls refused or partial and another "
        "does not; "
        f"{len(found.parted):,} of them, each way of parting about as often"
    )
    return Section(
        "labellers",
        "Labellers side by side",
        paragraphs,
        tables=(_rates(inputs, found), _pairs(found)),
        folded=((parted, _parted(inputs, found)),) if found.parted else (),
    )


def _rates(inputs: Inputs, found: LabellerComparison) -> Table:
    rows = [
        (
            inputs.names.get(target, target),
            side,
            *(refusal_rate(by[name]) if name in by else Cell(NONE, float("nan")) for name in found.labellers),
        )
        for (target, side), by in found.labels.items()
    ]
    columns = ("Model", "Prompts", *map(visible, found.labellers))
    return table_of(
        key="labeller-rates",
        caption="Replies called refused, of those each labeller could score",
        columns=columns,
        rows=rows,
    )


def _pairs(found: LabellerComparison) -> Table:
    rows = []
    for one in found.pairs:
        kappa = one.kappa()
        shown = Cell(NONE, kappa.value)
        if kappa.defined:
            shown = Cell(f"{kappa.value:.2f}", kappa.value, detail=f"{kappa.low:.2f}–{kappa.high:.2f}")
        first, second = one.rates
        rows.append((one.first, one.second, one.n, first, second, percent(one.alike), shown))
    columns = (
        "One labeller",
        "Another",
        "Replies",
        "Refused or partial: the one",
        "The other",
        "Alike",
        "Cohen's kappa",
    )
    return table_of(
        key="labeller-pairs",
        caption="Each two labellers on the replies that both could score",
        columns=columns,
        rows=rows,
    )


def _parted(inputs: Inputs, found: LabellerComparison) -> Table:
    return table_of(
        key="labellers-part",
        caption="Replies on which labellers part",
        columns=("Prompt", "Reply", "Model", *map(visible, found.labellers)),
        rows=(
            (
                text(one.prompt),
                text(shorten(one.reply, REPLY_CHARS)),
                inputs.names.get(one.target, one.target),
                *(one.labels.get(name) for name in found.labellers),
            )
            for one in found.parted
        ),
        wide=True,
    )
