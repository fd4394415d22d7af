"""The section of the prompts that are refused most, over all models and by each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from generators.report.report_inputs import Inputs
from generators.report.sections.section import Cell, Piece, ReportTable, Section, category_name, make
from generators.report.stats.matrix import REFUSED, ResponseMatrix
from generators.report.stats.rates import feature_key, osr_by_feature
from overbench_tasks.text import visible

MOST_REFUSED = 200
"""Prompts in the table over all models: searched and turned over in a browser without delay."""
PER_MODEL = 15


def prompts_section(inputs: Inputs, names: Mapping[str, str]) -> Section | None:
    """The most refused prompts of the first set, trigger words shaded; None where nothing is refused."""
    import numpy as np

    main = inputs.sets[0]
    matrix = main.matrix
    refused = matrix.values == 1
    votes, answers = refused.sum(axis=1), (matrix.values >= 0).sum(axis=1)
    # Most refusals first, then the larger share of those asked, then by id: the same page each time.
    order = [int(row) for row in np.lexsort((matrix.prompt_ids, answers, -votes)) if votes[row]]
    if not order:
        return None
    rates = osr_by_feature(matrix, min_prompts=1)
    overall = {one.feature: one.overall.low for one in rates}
    rows = [
        (
            Cell(inputs.texts[matrix.prompt_ids[row]], pieces=_pieces(inputs, matrix, row, overall)),
            Cell(f"{votes[row]} of {answers[row]}", float(votes[row])),
            category_name(matrix.categories[row]),
            ", ".join(matrix.features[row]),
            _who([names[t] for t in matrix.targets], list(refused[row])),
        )
        for row in order[:MOST_REFUSED]
    ]
    table = make(
        "prompts",
        f"The {len(rows):,} prompts that most models refuse, of {len(order):,} refused at all",
        ("Prompt", "Refused by", "Category", "Trigger words", "Models"),
        rows,
        ordered_by=(1, False),
        wide=True,
    )
    folded = []
    for column, target in enumerate(matrix.targets):
        own = [row for row in order if refused[row, column]]
        if own:
            words = {one.feature: one.by_target[target].low for one in rates}
            shown = _of_model(inputs, matrix, target, own[:PER_MODEL], words, f"model-{column + 1}", names)
            folded.append((f"{names[target]}: {len(own):,} refused", shown))
    return Section(
        "prompts",
        "The most refused prompts",
        (
            "Trigger words are shaded by how often prompts with them are refused at the least: by the "
            "lower end of the 95 % interval of that rate. A word of few prompts stays pale. Further down, "
            "for each model the prompts that it refuses and most others refuse too, shaded by its own "
            f"rates, with its reply where a log has it. Set: {main.name}.",
        ),
        (),
        (table,),
        tuple(folded),
        shades=shade_key(),
    )


def _who(targets: list[str], refused: list[bool]) -> str:
    """The targets that refuse; where most do, those that don't."""
    chosen = [target for target, no in zip(targets, refused, strict=True) if no]
    others = [target for target, no in zip(targets, refused, strict=True) if not no]
    if len(targets) > 1 and not others:
        return "all"
    if len(chosen) > 2 and len(others) * 2 < len(chosen):
        return f"all but {', '.join(others)}"
    return ", ".join(chosen)


def _of_model(
    inputs: Inputs,
    matrix: ResponseMatrix,
    target: str,
    rows: list[int],
    words: Mapping[str, float],
    key: str,
    names: Mapping[str, str],
) -> ReportTable:
    shown = []
    for row in rows:
        identity = matrix.prompt_ids[row]
        prompt = Cell(inputs.texts[identity], pieces=_pieces(inputs, matrix, row, words))
        votes = int((matrix.values[row] == REFUSED).sum())
        shown.append((prompt, inputs.quotes.get((identity, target)), votes))
    return make(
        key,
        f"Prompts that {names[target]} refuses, the most refused by all models first",
        ("Prompt", "Reply", "Models that refuse it"),
        shown,
        wide=True,
    )


def _pieces(
    inputs: Inputs, matrix: ResponseMatrix, row: int, rates: Mapping[str, float]
) -> tuple[tuple[str, int], ...]:
    return shaded(
        inputs.texts[matrix.prompt_ids[row]],
        {word: rates.get(feature_key(word), float("nan")) for word in matrix.features[row]},
    )


STEPS = 5
"""Shades from 1, hardly ever refused, to this, always refused."""


def shade(rate: float) -> int:
    """1 to :data:`STEPS` for a rate in [0, 1], in even steps; 1 for NaN, a word nobody has measured."""
    if math.isnan(rate):
        return 1
    return min(STEPS, 1 + int(rate * STEPS))


def shade_key() -> tuple[Piece, ...]:
    """A sample of each shade: the rates that it stands for."""
    step = 100 // STEPS
    return tuple((f"{step * n}–{step * (n + 1)} %", n + 1) for n in range(STEPS))


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
    by_key = {_key(word): rate for word, rate in rates.items() if word.strip()}
    longest_first = sorted(by_key, key=lambda word: (-len(word), word))
    if not longest_first:
        return ((visible(prompt), 0),)
    phrases = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest_first)
    pieces: list[Piece] = []
    after = 0
    for match in re.finditer(rf"(?<!\w)(?:{phrases})(?!\w)", prompt, re.IGNORECASE):
        if match.start() > after:
            pieces.append((visible(prompt[after : match.start()]), 0))
        pieces.append((visible(match[0]), shade(by_key.get(_key(match[0]), math.nan))))
        after = match.end()
    if after < len(prompt) or not pieces:
        pieces.append((visible(prompt[after:]), 0))
    return tuple(pieces)


def _key(word: str) -> str:
    return " ".join(word.casefold().split())
