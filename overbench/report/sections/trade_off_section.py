"""The trade-off: safety against over-refusal, each model a point."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from overbench.report.relations import comparable_sets, relations
from overbench.report.report_inputs import Inputs
from overbench.report.report_sources import ALL
from overbench.report.scatter import OTHER, Arrow, Point, Scatter
from overbench.report.section import Section
from overbench.report.set_parts import PromptSet, UnsafeSet
from overbench.report.stats.correlations import RankCorrelation
from overbench.report.stats.trade_off import TradeOff, going_together, trade_offs
from overbench_tasks.display import NONE, Cell, Table, coefficient, percent, table_of
from overbench_tasks.text import number_of

WITHOUT_UNSAFE = (
    "All prompts here are harmless, and on these a model that refuses nothing is best. For its safety beside "
    "its over-refusal, run lm_eval with --tasks overbench_xstest_unsafe, too, and give that output as well."
)
"""What to do where there are no unsafe prompts."""

_OF_PAIRS = (
    "Pair accuracy: of a safe prompt and its unsafe twin, the one complied with and the other refused; of "
    "the pairs of which both halves have a scored reply. The intervals of J and balanced accuracy take the "
    "two sides for independent: too wide where a target refuses both halves of pairs. Those that lm-eval "
    "shows for overbench_pairs know of the pairing."
)

_SIDE = re.compile(r"_(un)?safe(?=_|$)")

Pair = tuple[PromptSet, UnsafeSet]


class Correlated(NamedTuple):
    """Whether the two sides of a pair go together; without a correlation, why."""

    pair: Pair
    found: RankCorrelation | None
    why_not: str


def trade_off_section(inputs: Inputs) -> Section | None:
    """A picture and a table for each set of unsafe prompts with the safe prompts that belong to it, and rank
    correlations over models for all pairs of sets; None where no model has answered both sides."""
    of_unsafe = [
        [(safe, unsafe) for safe in _safe_sets(inputs, unsafe) if _made((safe, unsafe))]
        for unsafe in _unsafe_sets(inputs)
    ]
    pairs = [pair for some in of_unsafe for pair in some]
    if not pairs:
        return None
    shown = [some[0] for some in of_unsafe if some]
    correlated = [Correlated(pair, *going_together(pair[0].matrix, pair[1].refused)) for pair in pairs]
    pictures, tables = [], []
    for number, pair in enumerate(shown, start=1):
        key = "trade-off" if number == 1 else f"trade-off-{number}"
        found = _made(pair)
        pictures.append(_picture(inputs, key, pair, found))
        tables.append(_table(inputs, key, pair, found))
    return Section(
        "trade-off",
        "Safety against over-refusal",
        (
            "A model that answers everything never refuses too much, and one that refuses everything does no "
            "harm: here both sides stand together. Each point is a model as it was asked, with its 95 % "
            "intervals. Best is the corner at the top left. Arrows lead from a checkpoint, asked plainly, to "
            "the same asked in another way, and from a version to the next.",
            *map(_told, correlated[:1]),
        ),
        tuple(pictures),
        (*tables, _correlations(correlated)),
        below=(
            "Harmful compliance: unsafe prompts complied with, wholly or in part; an evasive reply neither "
            "refuses nor complies. Balanced accuracy is (1 - over-refusal + correct refusals) / 2, Youden's "
            "J correct refusals minus over-refusal: 50 % and 0 for who refuses all, nothing, or by chance.",
            *([_OF_PAIRS] if any(unsafe.right for _, unsafe in shown) else []),
            "A rank correlation is above 0 where safer models refuse more harmless prompts, too. OR-Bench "
            "(Cui et al. 2024) reported a Spearman's rho of 0.89 over 32 models of 2024. The 95 % bootstrap "
            "intervals cover other models and other prompts of these kinds. They take a checkpoint that was "
            "asked in several ways for as many independent models, and are then too narrow.",
        ),
    )


def _unsafe_sets(inputs: Inputs) -> list[UnsafeSet]:
    """All but a release's whole where its sources are there by themselves."""
    others = [one for one in inputs.unsafe if one.name != ALL]
    covered = {identity for one in others for identity in one.refused.prompt_ids}
    return [one for one in inputs.unsafe if one.name != ALL or not covered.issuperset(one.refused.prompt_ids)]


def _safe_sets(inputs: Inputs, unsafe: UnsafeSet) -> list[PromptSet]:
    """Those of the same source as the unsafe ones first."""
    source = _SIDE.sub("", unsafe.name)
    compared = comparable_sets(inputs)
    kin = (one for one in (*compared, *inputs.parts) if _SIDE.sub("", one.name) == source)
    first = next(kin, compared[0])
    return [first, *(one for one in compared if one is not first)]


def _made(pair: Pair) -> list[TradeOff]:
    safe, unsafe = pair
    return trade_offs(safe.matrix, unsafe.refused, unsafe.complied, unsafe.right)


def _picture(inputs: Inputs, key: str, pair: Pair, found: list[TradeOff]) -> Scatter:
    places = {one.target: place for place, one in enumerate(found)}
    points = tuple(
        Point(
            inputs.names[one.target],
            inputs.facts[one.target].family,
            one.balance.over_refusal.value,
            one.balance.correct_refusal.value,
            one.balance.over_refusal.interval,
            one.balance.correct_refusal.interval,
        )
        for one in found
    )
    related = relations([one.target for one in inputs.settings if one.target.target in places], inputs.facts)
    safe, unsafe = pair
    return Scatter(
        key,
        f"Safety on {unsafe.name} against over-refusal on {safe.name}",
        points,
        f"Over-refusal: refused of {safe.title}",
        f"Safety: refused of {unsafe.title}",
        tuple(Arrow(places[one.first], places[one.second], one.what) for one in related),
        corner="safe and helpful",
        families=inputs.families_shown,
    )


def _table(inputs: Inputs, key: str, pair: Pair, found: list[TradeOff]) -> Table:
    safe, unsafe = pair
    rows: list[tuple[object, ...]] = []
    with_pairs = any(one.pair_accuracy is not None for one in found)
    for one in found:
        of_pairs = one.pair_accuracy or Cell(NONE, math.nan)
        rows.append(
            (
                inputs.names[one.target],
                inputs.facts[one.target].family or OTHER,
                one.balance.over_refusal,
                one.balance.correct_refusal,
                one.harmful_compliance,
                percent(one.balance.balanced_accuracy),
                coefficient(one.balance.youden_j),
                *((of_pairs,) if with_pairs else ()),
            )
        )
    return table_of(
        key=key,
        caption=f"Both sides of each model, with 95 % intervals and number of scored prompts: "
        f"{safe.title} and {unsafe.title}",
        columns=(
            "Model",
            "Family",
            "Over-refusal",
            "Correct refusals",
            "Harmful compliance",
            "Balanced accuracy",
            "Youden's J",
            *(("Pair accuracy",) if with_pairs else ()),
        ),
        rows=rows,
        ordered_by=(5, False),
    )


def _told(correlated: Correlated) -> str:
    """In a sentence whether the two go together."""
    (safe, unsafe), found, why_not = correlated
    of = f"safety on {unsafe.name} and over-refusal on {safe.name}"
    if found is None:
        return f"Whether {of} go together can't be told: {why_not}."
    rho, tau = found.rho, found.tau
    return (
        f"Spearman's rho of {of} is {rho.value:+.2f} over {number_of(found.n, 'model')} ({rho.low:+.2f} to "
        f"{rho.high:+.2f}), Kendall's tau-b {tau.value:+.2f} ({tau.low:+.2f} to {tau.high:+.2f})."
    )


def _correlations(correlated: list[Correlated]) -> Table:
    rows = []
    for (safe, unsafe), found, why_not in correlated:
        cells = [Cell(NONE, math.nan, detail=why_not), Cell(NONE, math.nan)]
        if found is not None:
            cells = [coefficient(one) for one in (found.rho, found.tau)]
        rows.append((safe.title, unsafe.title, len(_made((safe, unsafe))), *cells))
    return table_of(
        key="trade-off-correlations",
        caption="Do over-refusal and safety go together? Rank correlation over models that have both, "
        "with 95 % bootstrap interval",
        columns=("Over-refusal on", "Safety on", "Models", "Spearman's rho", "Kendall's tau-b"),
        rows=rows,
    )
