"""Patterns behind gates: the words a pattern needs are looked up before it runs.

Looking words up in the set of an opening's words costs a tenth of running a pattern, and nearly
every opening holds none of them.
"""

from __future__ import annotations

import re
from typing import NamedTuple


def word_set(*texts: str) -> frozenset[str]:
    """Return the words of ``texts`` as a set."""
    return frozenset(word for text in texts for word in text.split())


class Gated(NamedTuple):
    """Patterns with the words that each needs, so that most never run."""

    rows: tuple[tuple[re.Pattern[str], tuple[frozenset[str], ...]], ...]
    by_word: dict[str, tuple[int, ...]]
    """The rows by each word of their first group."""
    vocabulary: frozenset[str]

    def words(self) -> frozenset[str]:
        """Return all words that the gates ask for."""
        groups = [group for _, others in self.rows for group in others]
        return self.vocabulary.union(*groups)

    def suspected(self, words: frozenset[str]) -> list[re.Pattern[str]]:
        """Return, in order, the patterns that a text with these words can match."""
        hinted = words & self.vocabulary
        if not hinted:
            return []
        rows = [self.rows[row] for row in sorted({row for word in hinted for row in self.by_word[word]})]
        return [p for p, groups in rows if not any(map(words.isdisjoint, groups))]


def gated(*table: tuple[str, ...]) -> Gated:
    """Compile rows of word groups and one pattern, of which every match holds a word per group.

    Put the group of rarest words first: looking it up is all that most texts cost.
    """
    by_word: dict[str, tuple[int, ...]] = {}
    rows = []
    for index, (first, *others, pattern) in enumerate(table):
        for word in first.split():
            by_word[word] = (*by_word.get(word, ()), index)
        rows.append((re.compile(pattern), tuple(frozenset(group.split()) for group in others)))
    return Gated(tuple(rows), by_word, frozenset(by_word))
