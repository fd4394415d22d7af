"""Model against model: transfer of prompts, leave-source-out, pairwise significance."""

from __future__ import annotations

import math
from collections.abc import Mapping

from generators.report.figures import HeatMap
from generators.report.report_inputs import Inputs, PromptSet
from generators.report.sections.section import Cell, Section, highest_first, last_part, make
from generators.report.stats.comparisons import compare_pairs
from generators.report.stats.rates import leave_source_out, osr, transfer


def transfer_section(inputs: Inputs, names: Mapping[str, str]) -> Section | None:
    matrix = inputs.sets[0].matrix
    if not any(matrix.source_targets):
        return None
    moved = transfer(matrix)
    sources = tuple(names.get(source, last_part(source)) for source in moved.sources)
    targets = tuple(names[target] for target in moved.targets)
    picture = HeatMap(
        "transfer",
        "Prompts made for one model, refused by another",
        f"Heat map of {len(sources)} source models by {len(targets)} models asked: the share of prompts made "
        "for the row's model that the column's model refuses. The table below has the numbers.",
        sources,
        targets,
        tuple(tuple(100 * rate.value for rate in row) for row in moved.rates),
        "Refused, %",
        "Made for",
        "Asked",
    )
    table = make(
        "transfer",
        "Share of prompts made for the row's model that the column's model refuses, with 95 % interval "
        "and number of scored prompts",
        ("Made for", "Prompts", *targets),
        (
            (source, prompts, *row)
            for source, prompts, row in zip(sources, moved.prompts, moved.rates, strict=True)
        ),
    )
    plain, own = osr(matrix), leave_source_out(matrix)
    kin = leave_source_out(matrix, inputs.checkpoints)
    fair = make(
        "leave-source-out",
        "Leave-source-out: the oversensitivity rate without the prompts that were made for the model "
        "itself, or for any configuration of its checkpoint",
        ("Model", "All prompts", "Without its own", "Without its checkpoint's"),
        ((names[target], plain[target], own[target], kin[target]) for target in highest_first(plain)),
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


def significance_section(main: PromptSet, names: Mapping[str, str]) -> Section | None:
    pairs = compare_pairs(main.matrix)
    if not pairs:
        return None
    clear = sum(pair.p_holm < 0.05 for pair in pairs)
    table = make(
        "significance",
        "Pairs of models on the prompts that both have a scored reply to. Difference: OSR of the first "
        "minus OSR of the second, in percentage points, with 95 % interval",
        [
            "First",
            "Second",
            "Common prompts",
            "Only first",
            "Only second",
            "Difference",
            "p",
            "p (Holm)",
            "Clear?",
        ],
        (
            (
                *(names[pair.first], names[pair.second], pair.n, pair.only_first, pair.only_second),
                *(_points(pair.difference, *pair.interval), _p_value(pair.p), _p_value(pair.p_holm)),
                "yes" if pair.p_holm < 0.05 else "no",
            )
            for pair in pairs
        ),
    )
    return Section(
        "significance",
        "Which differences are more than chance",
        (
            f"{clear} of {len(pairs)} pairs differ clearly: exact McNemar test on common prompts, "
            "corrected for all pairs by Holm's method, below 0.05. “Only first” counts prompts that the "
            f"first refuses and the second answers. Set: {main.name}.",
        ),
        (),
        (table,),
    )


def _points(difference: float, low: float, high: float) -> Cell:
    if math.isnan(difference):
        return Cell("–", difference)
    return Cell(f"{100 * difference:+.1f}", difference, detail=f"{100 * low:+.1f} to {100 * high:+.1f}")


def _p_value(p: float) -> Cell:
    shown = "–" if math.isnan(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}"
    return Cell(shown, p)
