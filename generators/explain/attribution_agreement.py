"""Is the word that an attribution names in the target's trigger, more often than another word is?

Attribution explains a detector, which stands in for the target; a trigger is found on the target itself.
Prompts without a trigger say nothing here, and of a prompt's triggers all count: a word that turns the
refusal alone is in one, whichever is shown first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from generators.attribution.attribution import Attribution, WordScore
from generators.explain.text_parts import TextPart
from generators.report.stats.comparisons import paired_test
from overbench_tasks.metrics import paired_interval


@dataclass(frozen=True, slots=True)
class NamingComparison:
    """Two ways of naming one word of a prompt, on the same prompts.

    Attributes:
        n: prompts.
        both, only_first, only_second: in how many of them the word of both, or of one way only, is in a
            trigger.
        p: McNemar's exact test, two-sided (McNemar 1947); NaN for no prompt.
    """

    n: int
    both: int
    only_first: int
    only_second: int
    p: float

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the difference of the two shares: Newcombe 1998, method 10."""
        return paired_interval(self.both, self.only_first, self.only_second, self.n)


def compare_namings(
    in_triggers: Sequence[Collection[int]], first: Sequence[int], second: Sequence[int]
) -> NamingComparison:
    """Compare two ways of naming a word by whether it is in a trigger.

    Args:
        in_triggers: per prompt, the numbers of the words that are in a trigger.
        first, second: per prompt, the number of the word that each way names.
    """
    import numpy as np

    ones, others = (
        np.array([word in found for word, found in zip(named, in_triggers, strict=True)], dtype=np.float64)
        for named in (first, second)
    )
    both = int((ones * others).sum())
    only_first, only_second = int(ones.sum()) - both, int(others.sum()) - both
    return NamingComparison(len(ones), both, only_first, only_second, paired_test(ones - others))


def top_word(attribution: Attribution, words: Sequence[TextPart], *, adjusted: bool = True) -> int | None:
    """The number of the word that an attribution names; None where there is none.

    That is the word with the highest score, of those that can be features.

    Args:
        words: :func:`~generators.explain.text_parts.words_of` the attributed prompt.
        adjusted: by the frequency-adjusted score (the paper's), else by the raw one.
    """

    def score(word: WordScore) -> float:
        return word.adjusted if adjusted else word.raw

    possible = [word for word in attribution.words if not word.excluded]
    if not possible:
        return None
    best = max(possible, key=score)
    places = {place: number for number, word in enumerate(words) for place in word.places}
    return places.get((best.start, best.end))
