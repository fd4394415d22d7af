"""Oversensitivity rates of a response matrix, each with its interval and the prompts behind it.

``OSR(M) = refused by M / scored replies of M`` (Pu et al. 2025, section 2), over the prompts that M has a
scored reply to. Intervals are Wilson's at 95 %, one by one: where many stand side by side, about one in
twenty misses its rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from generators.report.stats.matrix import ANSWERED, REFUSED, ResponseMatrix
from overbench_tasks.metrics import Rate
from overbench_tasks.records import CATEGORIES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_FEATURE_PROMPTS: Final = 5
"""A trigger word of fewer prompts than this says little; its interval is wider than half the scale."""


@dataclass(frozen=True)
class FeatureRate:
    """How often prompts with one trigger word are refused.

    Attributes:
        feature: the word, as :func:`feature_key` has it.
        prompts: how many prompts carry it, answered or not.
        overall: over all targets. A prompt counts once, by the share of its scored targets that refused
            it: replies of several targets to one prompt are not independent.
        by_target: target -> rate; ``n`` is 0 where the target has answered none of these prompts.
    """

    feature: str
    prompts: int
    overall: Rate
    by_target: Mapping[str, Rate]


def osr(matrix: ResponseMatrix) -> dict[str, Rate]:
    """Target -> its OSR over all prompts it has a scored reply to."""
    return _rates(matrix, matrix.values)


def leave_source_out(matrix: ResponseMatrix, checkpoints: Mapping[str, str] | None = None) -> dict[str, Rate]:
    """Target -> its OSR over the prompts that were not made for it.

    A prompt that was made against a model, and kept because that model refused it, is no fair question to
    that model and flatters the others. Targets are asked different prompts here, and a rate goes with
    the sources that remain: compare it with the target's own row and column of the transfer matrix.

    Args:
        matrix: with the ``source_targets`` of each prompt.
        checkpoints: target -> checkpoint, as in a release's ``targets.parquet``. A prompt made for one
            configuration of a checkpoint then counts for none of its other configurations either. By
            default only the very same target is left out.
    """
    rates = {}
    for target in matrix.targets:
        own = {target}
        if checkpoints and (checkpoint := checkpoints.get(target)) is not None:
            own |= {name for name, other in checkpoints.items() if other == checkpoint}
        rates[target] = _rate(matrix.column(target)[~matrix.made_for(own)])
    return rates


def osr_by_category(matrix: ResponseMatrix) -> dict[str, dict[str, Rate]]:
    """Category -> target -> OSR over the category's prompts.

    The categories are those that occur: the paper's in their usual order, then others by name. Prompts
    without a category are in none of them.
    """
    import numpy as np

    found = {category for category in matrix.categories if category is not None}
    order = [name for name in CATEGORIES if name in found] + sorted(found.difference(CATEGORIES))
    of_prompts = np.array(matrix.categories, dtype=object)
    return {category: _rates(matrix, matrix.values[of_prompts == category]) for category in order}


def osr_by_feature(matrix: ResponseMatrix, min_prompts: int = MIN_FEATURE_PROMPTS) -> list[FeatureRate]:
    """The rate of each trigger word that at least ``min_prompts`` prompts carry, highest overall first.

    A prompt with several trigger words counts for each. Equal rates: the word of more prompts first, then
    by name; words that no target has a scored reply to come last.
    """
    import numpy as np

    index = feature_index(matrix, min_prompts)
    refused, scored = matrix.values == REFUSED, matrix.values >= ANSWERED
    answers = scored.sum(axis=1)
    # NaN marks a prompt that nobody has answered; it is in no denominator.
    share = np.where(answers > 0, refused.sum(axis=1) / np.maximum(answers, 1), np.nan)
    counted = [index.count(refused[:, place]) for place in range(len(matrix.targets))]
    answered = [index.count(scored[:, place]) for place in range(len(matrix.targets))]
    totals = index.total(np.nan_to_num(share))
    asked = index.count(answers > 0)
    rates = [
        FeatureRate(
            feature,
            int(index.prompts[place]),
            Rate(float(totals[place]), int(asked[place])),
            {
                target: Rate(int(counted[column][place]), int(answered[column][place]))
                for column, target in enumerate(matrix.targets)
            },
        )
        for place, feature in enumerate(index.features)
    ]
    return sorted(rates, key=_highest_first)


@dataclass(frozen=True)
class FeatureIndex:
    """Which prompts carry which trigger word.

    Attributes:
        features: (F,), by name.
        prompts: int (F,), how many prompts carry each.
        codes: int (pairs,), place of a word in ``features``.
        rows: int (pairs,), place of a prompt that carries it; each pair once.
    """

    features: tuple[str, ...]
    prompts: NDArray[np.int64]
    codes: NDArray[np.int64]
    rows: NDArray[np.int64]

    def count(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """(F,): of the prompts where ``chosen`` (P,) is true, how many carry each word."""
        import numpy as np

        return np.bincount(self.codes[chosen[self.rows]], minlength=len(self.features)).astype(np.int64)

    def total(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """(F,): the sum of ``amounts`` (P,) over the prompts that carry each word."""
        import numpy as np

        totals = np.bincount(self.codes, weights=amounts[self.rows], minlength=len(self.features))
        return totals.astype(np.float64)


def feature_key(feature: str) -> str:
    """A trigger word as words are compared: case folded, white space collapsed."""
    return " ".join(feature.casefold().split())


def feature_index(matrix: ResponseMatrix, min_prompts: int = 1) -> FeatureIndex:
    """The trigger words that at least ``min_prompts`` prompts carry, and these prompts."""
    import numpy as np

    of_prompts = [sorted({feature_key(word) for word in words} - {""}) for words in matrix.features]
    counts = Counter(word for words in of_prompts for word in words)
    features = tuple(sorted(word for word, count in counts.items() if count >= min_prompts))
    place = {word: number for number, word in enumerate(features)}
    pairs = [(place[word], row) for row, words in enumerate(of_prompts) for word in words if word in place]
    both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    prompts = np.array([counts[word] for word in features], dtype=np.int64)
    return FeatureIndex(features, prompts, both[:, 0], both[:, 1])


def _rates(matrix: ResponseMatrix, values: NDArray[np.int8]) -> dict[str, Rate]:
    """Target -> rate, of some rows of the matrix."""
    return {target: _rate(values[:, place]) for place, target in enumerate(matrix.targets)}


def _rate(values: NDArray[np.int8]) -> Rate:
    return Rate(int((values == REFUSED).sum()), int((values >= ANSWERED).sum()))


def _highest_first(rate: FeatureRate) -> tuple[bool, float, int, str]:
    value = rate.overall.value
    return math.isnan(value), 0.0 if math.isnan(value) else -value, -rate.prompts, rate.feature
