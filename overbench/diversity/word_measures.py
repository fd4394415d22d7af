"""What words tell of how varied prompts are: Self-BLEU, distinct-n, openings, lengths. No model is needed.

Words are those of :func:`generators.words.spans`; Self-BLEU splits a prompt as sacrebleu does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from generators.words import spans

OPENING_WORDS: Final = 3
OPENINGS: Final = 10
"""So many of the commonest openings are kept."""


@dataclass(frozen=True)
class Opening:
    """How prompts begin: their first :data:`OPENING_WORDS` words or all of fewer, and the share that does."""

    words: str
    share: float


def words_of(prompt: str) -> list[str]:
    """The words of a prompt, casefolded, with straight apostrophes, without the marks between them."""
    folded = (prompt[span.start : span.end].casefold() for span in spans(prompt) if span.is_word)
    return [word.replace("’", "'") for word in folded]


def self_bleu(prompts: Sequence[str]) -> float:
    """The mean sentence BLEU-4 of each prompt against all others, 0 to 100; lower is more varied.

    Zhu et al. 2018, "Texygen", section 3; BLEU by sacrebleu, case kept, with its exponential smoothing, up to
    the longest n-gram a prompt has (effective order). It takes time by the square of the number of prompts,
    and grows with that number: compare equal ones. NaN for fewer than two.
    """
    if len(prompts) < 2:
        return math.nan
    from sacrebleu.metrics.bleu import BLEU
    from tqdm import tqdm

    bleu = BLEU(effective_order=True)
    scores = [
        bleu.sentence_score(prompt, [*prompts[:index], *prompts[index + 1 :]]).score
        for index, prompt in enumerate(tqdm(prompts, desc="Self-BLEU", leave=False, disable=None))
    ]
    return sum(scores) / len(scores)


def distinct(prompts: Sequence[Sequence[str]], n: int) -> float:
    """Different n-grams over all n-grams of a set, in (0, 1]; higher is more varied.

    Li et al. 2016, "A Diversity-Promoting Objective Function", section 5. It falls as the set grows: compare
    equal numbers of prompts. NaN where no prompt has ``n`` words.

    Args:
        prompts: the words of each.
    """
    grams = [tuple(words[at : at + n]) for words in prompts for at in range(len(words) - n + 1)]
    return len(set(grams)) / len(grams) if grams else math.nan


def openings(prompts: Sequence[Sequence[str]]) -> tuple[Opening, ...]:
    """The commonest openings, the commonest first, of equally common ones by the alphabet.

    Args:
        prompts: the words of each; those without any have no opening, and count in the shares.
    """
    counts = Counter(" ".join(words[:OPENING_WORDS]) for words in prompts if words)
    ordered = sorted(counts.items(), key=lambda opening: (-opening[1], opening[0]))[:OPENINGS]
    return tuple(Opening(words, n / len(prompts)) for words, n in ordered)


def quartiles(lengths: Sequence[int]) -> tuple[float, float, float]:
    """The lower quartile, median and upper quartile, linear between values (numpy's default)."""
    import numpy as np

    low, median, high = np.percentile(lengths, [25, 50, 75]).tolist()
    return low, median, high
