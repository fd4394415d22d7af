"""Oversensitivity rates: per model and set, trigger word, category and source, and pair by pair."""

from __future__ import annotations

import math
from collections import Counter

from overbench.report.figures import BarChart, HeatMap, Series
from overbench.report.report_inputs import SYSTEM_MARK, Inputs
from overbench.report.report_sources import HARD
from overbench.report.sections.label_sections import about_labels, label_errors_table
from overbench.report.sections.section import Section, category_name, highest_first
from overbench.report.stats.comparisons import compare_pairs, ranking_agreement
from overbench.report.stats.matrix import MISSING, ResponseMatrix
from overbench.report.stats.rates import (
    MIN_FEATURE_PROMPTS,
    feature_percentiles,
    leave_source_out,
    osr,
    osr_by_category,
    osr_by_feature,
    transfer,
)
from overbench_tasks.display import NONE, Cell, Table, percent, shares, table_of
from overbench_tasks.metrics import Rate
from overbench_tasks.records import CATEGORIES
from overbench_tasks.text import number_of

_OF_SHARES = (
    "Where a model gave several replies to a prompt, its share of refusals counts, and the test draws the "
    "signs of the differences at random. "
)
_OF_PART = "; where a random part of a set was asked, of the rate on all of its prompts"
_SEQUENTIAL = ", and sequential where runs stopped once it was narrow enough"
FEW_FEATURES = 10
"""With fewer words of enough prompts, rarer words are shown too."""


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


def attributions_section(inputs: Inputs) -> Section | None:
    """The paper's figure 3 from the attributions of runs; None without any."""
    if (matrix := inputs.attributed) is None or not any(matrix.features):
        return None
    top = feature_percentiles(matrix, min_prompts=1)
    targets = tuple(inputs.names[target] for target in matrix.targets)
    words = number_of(len(top.features), "word")
    picture = HeatMap(
        "attributions",
        f"Top {words} by percentile within each model, by attribution",
        f"Heat map of {words} by {number_of(len(targets), 'model')}. "
        f"Highest mean percentile: {', '.join(top.features[:5])}. The table below has the counts.",
        top.features,
        targets,
        tuple(map(tuple, top.percentiles.tolist())),
        "Percentile within the model",
        "Attributed word",
    )
    rates = sorted(osr_by_feature(matrix, min_prompts=1), key=lambda one: (-one.prompts, one.feature))
    counts = [
        (one.feature, one.prompts, *(one.by_target[name].n for name in matrix.targets)) for one in rates
    ]
    table = table_of(
        key="attributions",
        caption="In how many attributed prompts each word is named",
        columns=("Word", "All models", *targets),
        rows=counts,
        ordered_by=(1, False),
    )
    attributed = zip(targets, matrix.scored.sum(axis=0), strict=True)
    prompts = [f"{name} {count:,}" for name, count in attributed]
    return Section(
        "attributions",
        "Words by attribution",
        (
            "From the refresh runs: the words that Integrated Gradients on each model's own detector of "
            "refusals names in prompts that the model refuses, or that the detector calls refused where "
            f"nobody asked the model. Within each model, {number_of(top.ranked, 'word')} are ranked by how "
            "many such prompts they are named in; words with equally many share a rank. The figure shows "
            "those that rank highest on average (Pu et al. 2025, figure 3). Attributed prompts: "
            f"{', '.join(prompts)}.",
        ),
        (picture,),
        (table,),
    )


def features_section(inputs: Inputs) -> Section | None:
    matrix, whose = _whose_words(inputs.main.matrix)
    # Small sets have few words in common: words of two prompts then, and the text says so.
    for at_least in (MIN_FEATURE_PROMPTS, 2):
        top = feature_percentiles(matrix, min_prompts=at_least)
        if len(top.features) >= FEW_FEATURES:
            break
    if not top.features:
        return None
    targets = tuple(inputs.names[target] for target in matrix.targets)
    words = number_of(len(top.features), "trigger word")
    picture = HeatMap(
        "features",
        f"Top {words} by percentile within each model",
        f"Heat map of {words} by {number_of(len(targets), 'model')}. "
        f"Highest mean percentile: {', '.join(top.features[:5])}. The table below has the refusal rates.",
        top.features,
        targets,
        tuple(map(tuple, top.percentiles.tolist())),
        "Percentile within the model",
        "Trigger word",
    )
    table = table_of(
        key="features",
        caption=f"Oversensitivity rate per trigger word (words of at least {at_least} prompts), with 95 % "
        "interval and number of scored prompts. Over all models, a prompt counts by the share of models "
        "that refuse it.",
        columns=("Trigger word", "Prompts", "All models", *targets),
        rows=(
            (one.feature, one.prompts, one.overall, *(one.by_target[target] for target in matrix.targets))
            for one in osr_by_feature(matrix, at_least)
        ),
    )
    return Section(
        "features",
        "Trigger words",
        (
            f"Within each model, the {number_of(top.ranked, 'word')} of at least {at_least} prompts "
            f"{'is' if top.ranked == 1 else 'are'} ranked by how many prompts with them it refuses; words "
            "with equally many share a rank. The figure shows the words that rank highest on average: which "
            "words matter to a model, on the same scale for all of them, and not how often it refuses. For "
            "that see the table. "
            f"Set: {inputs.main.name}.",
            whose,
        ),
        (picture,),
        (table,),
    )


def _whose_words(matrix: ResponseMatrix) -> tuple[ResponseMatrix, str]:
    """The matrix with the words that the section is about, and whose they are: attributed ones where there
    are any, else those that the prompts' writers or files name."""
    attributed, named = (sum(map(bool, words)) for words in (matrix.features, matrix.named))
    others = f"{number_of(named, 'other prompt')} carry words that their writers or files name"
    if attributed:
        told = (
            f"Words of {number_of(attributed, 'prompt')} that a refresh made, where attribution on a "
            "detector of refusals found them in the seed."
        )
        return matrix, f"{told} {others}: these are not counted here." if named else told
    return matrix.with_named_features(), (
        "Whose words: those that the prompts' writers or files name. Nobody is known to have attributed "
        "them, so that a word that ranks high stands in prompts that are refused, and need not be why."
    )


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


def significance_section(inputs: Inputs) -> Section | None:
    pairs = compare_pairs(inputs.main.matrix)
    if not pairs:
        return None
    table = table_of(
        key="significance",
        caption="Pairs of models on the prompts that both have a scored reply to. Difference: OSR of the "
        "first minus OSR of the second, in percentage points, with 95 % interval",
        columns=(
            "First",
            "Second",
            "Common prompts",
            "Only first",
            "Only second",
            "Difference",
            "p",
            "p (Holm)",
            "Clear?",
        ),
        rows=(
            (
                inputs.names[pair.first],
                inputs.names[pair.second],
                pair.n,
                shares(pair.only_first),
                shares(pair.only_second),
                _points(pair.difference, *pair.interval),
                _p_value(pair.p),
                _p_value(pair.p_holm),
                "yes" if pair.p_holm < 0.05 else "no",
            )
            for pair in pairs
        ),
    )
    return Section(
        "significance",
        "Which differences are more than chance",
        (
            f"{sum(pair.p_holm < 0.05 for pair in pairs)} of {number_of(len(pairs), 'pair')} differ clearly: "
            "exact McNemar test on common prompts, corrected for all pairs by Holm's method, below 0.05. "
            "“Only first” counts prompts that the first refuses and the second answers. "
            f"{_OF_SHARES if inputs.main.matrix.has_shares else ''}Set: {inputs.main.name}.",
        ),
        tables=(table,),
    )


def _points(difference: float, low: float, high: float) -> Cell:
    if math.isnan(difference):
        return Cell(NONE, difference)
    return Cell(f"{100 * difference:+.1f}", difference, detail=f"{100 * low:+.1f} to {100 * high:+.1f}")


def _p_value(p: float) -> Cell:
    return Cell(NONE if math.isnan(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}", p)
