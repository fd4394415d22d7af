"""Trigger words: how often prompts that carry a word are refused."""

from __future__ import annotations

from overbench.report.figures import HeatMap
from overbench.report.report_inputs import Inputs
from overbench.report.section import Section
from overbench.report.stats.matrix import ResponseMatrix
from overbench.report.stats.rates import (
    MIN_FEATURE_PROMPTS,
    feature_percentiles,
    osr_by_feature,
)
from overbench_tasks.display import table_of
from overbench_tasks.text import number_of

FEW_FEATURES = 10
"""With fewer words of enough prompts, rarer words are shown too."""


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
