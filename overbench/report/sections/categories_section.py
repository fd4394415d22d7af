"""Prompts and rates per category."""

from __future__ import annotations

from collections import Counter

from overbench.report.figures import BarChart, Series
from overbench.report.report_inputs import Inputs
from overbench.report.section import Section, category_name, highest_first
from overbench.report.stats.matrix import MISSING
from overbench.report.stats.rates import (
    osr,
    osr_by_category,
)
from overbench_tasks.display import Table, percent, table_of
from overbench_tasks.metrics import Rate
from overbench_tasks.records import CATEGORIES


def categories_section(inputs: Inputs) -> Section | None:
    shares = [Counter(one.matrix.categories) for one in inputs.sets]
    found = {category for share in shares for category in share if category is not None}
    if not found:
        return None
    order: list[str | None] = [one for one in CATEGORIES if one in found]
    order += sorted(found.difference(CATEGORIES))
    order += [None] if any(share[None] for share in shares) else []
    rows = tuple(map(category_name, order))
    prompts = [len(one.matrix.prompt_ids) for one in inputs.sets]
    series = tuple(
        Series(one.title, tuple(share[category] / n for category in order))
        for one, share, n in zip(inputs.sets, shares, prompts, strict=True)
    )
    counts = table_of(
        key="categories",
        caption="Prompts per category: the risk that a prompt only seems to carry",
        columns=("Category", *(part for one in inputs.sets for part in (one.name, f"{one.name}, share"))),
        rows=(
            (
                category_name(category),
                *(
                    part
                    for share, n in zip(shares, prompts, strict=True)
                    for part in (share[category], percent(share[category] / n))
                ),
            )
            for category in order
        ),
    )
    by_category = osr_by_category(inputs.main.matrix)
    rates = table_of(
        key="category-rates",
        caption=f"Oversensitivity rate per model and category on {inputs.main.name}, with 95 % interval "
        "and number of scored prompts",
        columns=("Model", *map(category_name, by_category)),
        rows=(
            (inputs.names[target], *(of_category[target] for of_category in by_category.values()))
            for target in highest_first(osr(inputs.main.matrix))
        ),
    )
    picture = BarChart("categories", "Categories of the prompts", rows, series, "Share of prompts")
    tables = (counts, rates, *filter(None, [_or_bench_table(inputs)]))
    return Section("categories", "Categories", (), (picture,), tables)


def _or_bench_table(inputs: Inputs) -> Table | None:
    """OR-Bench's category of the prompts, and how often all models refuse them; None where none is known."""
    of_sets = [[inputs.or_bench.get(identity) for identity in one.matrix.prompt_ids] for one in inputs.sets]
    counts = [Counter(categories) for categories in of_sets]
    found = {category for count in counts for category in count if category is not None}
    if not found:
        return None
    values = inputs.main.matrix.values
    rows = []
    for category in [*sorted(found, key=lambda one: (-counts[0][one], one)), None]:
        if not any(count[category] for count in counts):
            continue
        chosen = values[[one == category for one in of_sets[0]]]
        chosen = chosen[chosen != MISSING]
        rate = Rate(float(chosen.sum()), len(chosen))
        rows.append((category or "none found", *(count[category] for count in counts), percent(rate.value)))
    return table_of(
        key="or-bench",
        caption="The same prompts by OR-Bench's ten categories (Cui et al. 2024). Refused: of all models' "
        f"scored replies to those of {inputs.main.name}",
        columns=("OR-Bench category", *(one.name for one in inputs.sets), "Refused"),
        rows=rows,
    )
