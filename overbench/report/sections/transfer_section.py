"""Prompts made for one model and put to another."""

from __future__ import annotations

from overbench.report.figures import HeatMap
from overbench.report.report_inputs import Inputs
from overbench.report.section import Section, highest_first
from overbench.report.stats.rates import (
    leave_source_out,
    osr,
    transfer,
)
from overbench_tasks.display import table_of
from overbench_tasks.text import number_of


def transfer_section(inputs: Inputs) -> Section | None:
    matrix, names = inputs.main.matrix, inputs.names
    if not any(matrix.source_targets):
        return None
    moved = transfer(matrix)
    sources = tuple(names[source] for source in moved.sources)
    targets = tuple(names[target] for target in matrix.targets)
    picture = HeatMap(
        "transfer",
        "Prompts made for one model, refused by another",
        f"Heat map of {number_of(len(sources), 'source model')} by {number_of(len(targets), 'model')} asked: "
        "the share of prompts made for the row's model that the column's model refuses. The table below has "
        "the numbers.",
        sources,
        targets,
        tuple(tuple(100 * rate.value for rate in row) for row in moved.rates),
        "Refused, %",
        "Made for",
        "Asked",
    )
    table = table_of(
        key="transfer",
        caption="Share of prompts made for the row's model that the column's model refuses, with 95 % "
        "interval and number of scored prompts",
        columns=("Made for", "Prompts", *targets),
        rows=((one, n, *row) for one, n, row in zip(sources, moved.prompts, moved.rates, strict=True)),
    )
    plain, own = osr(matrix), leave_source_out(matrix)
    kin = leave_source_out(matrix, {one.target.target: one.target.checkpoint for one in inputs.settings})
    fair = table_of(
        key="leave-source-out",
        caption="Leave-source-out: the oversensitivity rate without the prompts that were made for the model "
        "itself, or for any configuration of its checkpoint",
        columns=("Model", "All prompts", "Without its own", "Without its checkpoint's"),
        rows=((names[target], plain[target], own[target], kin[target]) for target in highest_first(plain)),
        ordered_by=(1, False),
    )
    return Section(
        "transfer",
        "Transfer and leave-source-out",
        (
            "A prompt that was made for a model, and kept because that model refused it, is no fair "
            "question to that model. Where row and column are the same model the rate is high by "
            "construction. Prompts that were made for both count only there.",
        ),
        (picture,),
        (table, fair),
    )
