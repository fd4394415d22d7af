"""The prompts that most models refuse, with their trigger words shaded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from overbench.report.report_inputs import Inputs
from overbench.report.section import Section, category_name
from overbench.report.stats.rates import feature_key, osr_by_feature
from overbench_tasks.display import Cell, Piece, shares, table_of
from overbench_tasks.text import number_of, visible

MOST_REFUSED = 200
"""Prompts in the table over all models: searched and turned over in a browser without delay."""


PER_MODEL = 15


SHADES = 5
"""From 1, hardly ever refused, to this, always refused."""


def prompts_section(inputs: Inputs) -> Section | None:
    """The most refused prompts of the first set, trigger words shaded; None where nothing is refused."""
    import numpy as np

    matrix, names = inputs.main.matrix, inputs.names
    refused = matrix.values > 0
    votes, answers = matrix.refusals.sum(axis=1), matrix.scored.sum(axis=1)
    # Most refusals first, then the larger share of those asked, then by id: the same page each time.
    order = [int(row) for row in np.lexsort((matrix.prompt_ids, answers, -votes)) if votes[row]]
    if not order:
        return None
    named = matrix.named or ((),) * len(matrix.prompt_ids)
    words_of = [ours or theirs for ours, theirs in zip(matrix.features, named, strict=True)]
    rates = osr_by_feature(replace(matrix, features=tuple(words_of)), min_prompts=1)

    def prompt(row: int, of_words: Mapping[str, float]) -> Cell:
        shown = inputs.texts[matrix.prompt_ids[row]]
        words = {word: of_words.get(feature_key(word), math.nan) for word in words_of[row]}
        return Cell(shown, pieces=shaded(shown, words))

    overall = {one.feature: one.overall.low for one in rates}
    table = table_of(
        key="prompts",
        caption=f"The {number_of(min(len(order), MOST_REFUSED), 'prompt')} that most models refuse, of "
        f"{len(order):,} refused at all",
        columns=("Prompt", "Refused by", "Category", "Attributed words", "Named by its writer", "Models"),
        rows=(
            (
                prompt(row, overall),
                Cell(f"{shares(votes[row]).text} of {answers[row]}", float(votes[row])),
                category_name(matrix.categories[row]),
                ", ".join(matrix.features[row]),
                ", ".join(named[row]),
                _who([names[target] for target in matrix.targets], refused[row]),
            )
            for row in order[:MOST_REFUSED]
        ),
        ordered_by=(1, False),
        wide=True,
    )
    folded = []
    for column, target in enumerate(matrix.targets):
        if not (own := [row for row in order if refused[row, column]]):
            continue
        of_target = {one.feature: one.by_target[target].low for one in rates}
        shown = table_of(
            key=f"model-{column + 1}",
            caption=f"Prompts that {names[target]} refuses, the most refused by all models first",
            columns=("Prompt", "Reply", "Models that refuse it"),
            rows=(
                (
                    prompt(row, of_target),
                    inputs.quotes.get((matrix.prompt_ids[row], target)),
                    shares(float(votes[row])),
                )
                for row in own[:PER_MODEL]
            ),
            wide=True,
        )
        folded.append((f"{names[target]}: {len(own):,} refused", shown))
    return Section(
        "prompts",
        "The most refused prompts",
        (
            "The words of a prompt, those that attribution found or else those that its writer or file "
            "names, are shaded by how often prompts with them are refused at the least: by the "
            "lower end of the 95 % interval of that rate. A word of few prompts stays pale. Further down, "
            "for each model the prompts that it refuses and most others refuse too, shaded by its own "
            f"rates, with its reply where a log has it. Set: {inputs.main.name}.",
        ),
        tables=(table,),
        folded=tuple(folded),
        shades=tuple((f"{100 * n // SHADES}–{100 * (n + 1) // SHADES} %", n + 1) for n in range(SHADES)),
    )


def _who(targets: list[str], refused: Iterable[bool]) -> str:
    """The targets that refuse; where most do, those that don't."""
    chosen = [target for target, no in zip(targets, refused, strict=True) if no]
    others = [target for target in targets if target not in chosen]
    if len(targets) > 1 and not others:
        return "all"
    if len(chosen) > 2 and len(others) * 2 < len(chosen):
        return f"all but {', '.join(others)}"
    return ", ".join(chosen)


def shade(rate: float) -> int:
    """1 to :data:`SHADES` for a rate in [0, 1], in even steps; 1 for NaN, a word nobody has measured."""
    return 1 if math.isnan(rate) else min(SHADES, 1 + int(rate * SHADES))


def shaded(prompt: str, rates: Mapping[str, float]) -> tuple[Piece, ...]:
    """The prompt in pieces, its trigger words shaded.

    Args:
        prompt: any text. Characters that steer a page or a terminal come out as visible symbols.
        rates: trigger word or phrase -> refusal rate of the prompts that carry it. A word is found
            whole, in any case, with any white space between its parts; where two overlap, the one that
            starts first, then the longer one.

    Returns:
        the pieces, which together are ``visible(prompt)``.
    """
    by_key = {feature_key(word): rate for word, rate in rates.items() if word.strip()}
    longest_first = sorted(by_key, key=lambda word: (-len(word), word))
    if not longest_first:
        return ((visible(prompt), 0),)
    phrases = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest_first)
    pieces: list[Piece] = []
    after = 0
    for match in re.finditer(rf"(?<!\w)(?:{phrases})(?!\w)", prompt, re.IGNORECASE):
        if match.start() > after:
            pieces.append((visible(prompt[after : match.start()]), 0))
        pieces.append((visible(match[0]), shade(by_key.get(feature_key(match[0]), math.nan))))
        after = match.end()
    if after < len(prompt) or not pieces:
        pieces.append((visible(prompt[after:]), 0))
    return tuple(pieces)
