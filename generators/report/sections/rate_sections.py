"""Oversensitivity rates: per model and set, per trigger word, per category (the paper's three figures)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from generators.report.figures import BarChart, HeatMap, Series
from generators.report.report_inputs import HARD, Inputs, PromptSet
from generators.report.sections.section import (
    SYSTEM_MARK,
    Cell,
    ReportTable,
    Section,
    alt_of_bars,
    category_name,
    highest_first,
    make,
    percent,
    set_name,
)
from generators.report.stats.comparisons import ranking_agreement
from generators.report.stats.matrix import MISSING, REFUSED
from generators.report.stats.rates import (
    MIN_FEATURE_PROMPTS,
    feature_percentiles,
    osr,
    osr_by_category,
    osr_by_feature,
)
from overbench_tasks.metrics import Rate
from overbench_tasks.records import CATEGORIES

FEW_FEATURES = 10
"""With fewer words of enough prompts, rarer words are shown too."""


def rates_section(inputs: Inputs, names: Mapping[str, str]) -> Section:
    rates = [osr(one.matrix) for one in inputs.sets]
    order = highest_first(rates[0])
    order += sorted({target for of_set in rates for target in of_set}.difference(order))
    nothing = Rate(0, 0)
    series = tuple(
        Series(
            set_name(one),
            tuple(of_set.get(target, nothing).value for target in order),
            tuple(of_set.get(target, nothing).low for target in order),
            tuple(of_set.get(target, nothing).high for target in order),
        )
        for one, of_set in zip(inputs.sets, rates, strict=True)
    )
    paragraphs = [
        "The oversensitivity rate (OSR) is the share of harmless prompts that a model refuses, over the "
        "prompts with a scored reply. Lower is better. Intervals are Wilson's at 95 %."
    ]
    below = []
    if any(SYSTEM_MARK in name for name in names.values()):
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
        agreement = ranking_agreement(inputs.sets[0].matrix, one.matrix)
        if not math.isnan(agreement.tau):
            below.append(
                f"Do {inputs.sets[0].name} and {one.name} rank the {len(agreement.targets)} models alike? "
                f"Kendall's tau-b is {agreement.tau:.2f} (95 % bootstrap interval over prompts "
                f"{agreement.low:.2f} to {agreement.high:.2f}); 1 is the same order, 0 none in common."
            )
    picture = BarChart(
        "osr",
        "Oversensitivity rate per model",
        alt_of_bars("Oversensitivity rate", [names[target] for target in order], series),
        tuple(names[target] for target in order),
        series,
        "Oversensitivity rate",
    )
    table = make(
        "osr",
        "Oversensitivity rate per model and set, with 95 % interval (in %) and number of scored prompts",
        ("Model", *(one.name for one in inputs.sets)),
        ((names[target], *(of_set.get(target, nothing) for of_set in rates)) for target in order),
        ordered_by=(1, False),
    )
    return Section("osr", "Oversensitivity rate", tuple(paragraphs), (picture,), (table,), below=tuple(below))


def features_section(main: PromptSet, names: Mapping[str, str]) -> Section | None:
    # Small sets have few words in common: words of two prompts then, and the text says so.
    for at_least in (MIN_FEATURE_PROMPTS, 2):
        top = feature_percentiles(main.matrix, min_prompts=at_least)
        if len(top.features) >= FEW_FEATURES:
            break
    if not top.features:
        return None
    targets = tuple(names[target] for target in top.targets)
    values = tuple(tuple(float(value) for value in row) for row in top.percentiles)
    picture = HeatMap(
        "features",
        f"Top {len(top.features)} trigger words by percentile within each model",
        f"Heat map of {len(top.features)} trigger words by {len(targets)} models. Highest mean percentile: "
        f"{', '.join(top.features[:5])}. The table below has the refusal rates.",
        top.features,
        targets,
        values,
        "Percentile within the model",
        "Trigger word",
    )
    rows = (
        (one.feature, one.prompts, one.overall, *(one.by_target[target] for target in main.matrix.targets))
        for one in osr_by_feature(main.matrix, at_least)
    )
    table = make(
        "features",
        f"Oversensitivity rate per trigger word (words of at least {at_least} prompts), with 95 % "
        "interval and number of scored prompts. Over all models, a prompt counts by the share of models "
        "that refuse it.",
        ("Trigger word", "Prompts", "All models", *(names[target] for target in main.matrix.targets)),
        rows,
    )
    return Section(
        "features",
        "Trigger words",
        (
            f"Within each model, the {top.ranked:,} words of at least {at_least} prompts are "
            "ranked by how many prompts with them it refuses; words with equally many share a rank. The "
            "figure shows the words that rank highest on average: which words matter to a model, on the "
            "same scale for all of them, and not how often it refuses. For that see the table. "
            f"Set: {main.name}.",
        ),
        (picture,),
        (table,),
    )


def categories_section(inputs: Inputs, names: Mapping[str, str]) -> Section | None:
    main = inputs.sets[0]
    shares = {one.name: Counter(one.matrix.categories) for one in inputs.sets}
    found = [category for category in CATEGORIES if any(share[category] for share in shares.values())]
    others = {c for share in shares.values() for c in share if c is not None and c not in CATEGORIES}
    order: list[str | None] = [*found, *sorted(others)]
    if not order:
        return None
    if any(share[None] for share in shares.values()):
        order.append(None)
    series = tuple(
        Series(set_name(one), tuple(shares[one.name][c] / len(one.matrix.prompt_ids) for c in order))
        for one in inputs.sets
    )
    rows = tuple(category_name(category) for category in order)
    picture = BarChart(
        "categories",
        "Categories of the prompts",
        alt_of_bars("Share of prompts", rows, series),
        rows,
        series,
        "Share of prompts",
    )

    def counted(one: PromptSet, category: str | None) -> tuple[int, Cell]:
        n = shares[one.name][category]
        return n, percent(n / len(one.matrix.prompt_ids))

    counts = make(
        "categories",
        "Prompts per category: the risk that a prompt only seems to carry",
        ("Category", *(part for one in inputs.sets for part in (one.name, f"{one.name}, share"))),
        (
            (category_name(category), *(part for one in inputs.sets for part in counted(one, category)))
            for category in order
        ),
    )
    by_category = osr_by_category(main.matrix)
    rates = make(
        "category-rates",
        f"Oversensitivity rate per model and category on {main.name}, with 95 % interval and number of "
        "scored prompts",
        ("Model", *(category_name(category) for category in by_category)),
        (
            (names[target], *(rates[target] for rates in by_category.values()))
            for target in highest_first(osr(main.matrix))
        ),
    )
    tables = (counts, rates, *filter(None, [_or_bench_table(inputs)]))
    return Section("categories", "Categories", (), (picture,), tables)


def _or_bench_table(inputs: Inputs) -> ReportTable | None:
    """OR-Bench's category of the prompts, and how often all models refuse them; None where none is known."""
    of_sets = [[inputs.or_bench.get(identity) for identity in one.matrix.prompt_ids] for one in inputs.sets]
    counts = [Counter(categories) for categories in of_sets]
    found = {category for count in counts for category in count if category is not None}
    if not found:
        return None
    values = inputs.sets[0].matrix.values
    rows = []
    for category in [*sorted(found, key=lambda one: (-counts[0][one], one)), None]:
        if not any(count[category] for count in counts):
            continue
        chosen = values[[one == category for one in of_sets[0]]]
        rate = Rate(int((chosen == REFUSED).sum()), int((chosen != MISSING).sum()))
        rows.append((category or "none found", *(count[category] for count in counts), percent(rate.value)))
    return make(
        "or-bench",
        "The same prompts by OR-Bench's ten categories (Cui et al. 2024). Refused: of all models' scored "
        f"replies to those of {inputs.sets[0].name}",
        ("OR-Bench category", *(one.name for one in inputs.sets), "Refused"),
        rows,
    )
