"""Which phrases a text can match, by the words it holds; nearly none of them has to be run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from overbench_tasks.refusal.phrasebook import Phrase


class Prefilter:
    """The words that ``phrases`` need, by word.

    What a set of words lets through is a number with a bit for each phrase and list of words: the
    number of a word has the bits of the lists it is on, and a phrase passes where the bits of all its
    lists are set. A phrase with fewer lists than others has the bits of the rest set from the start.
    """

    def __init__(self, phrases: Sequence[Phrase]) -> None:
        self._phrases: Final = phrases
        self._lists: Final = max(len(phrase.needs) for phrase in phrases)
        self._bits_of: dict[str, int] = {}
        self._bits_of_all = self._bits_outside_ascii = 0
        for number, phrase in enumerate(phrases):
            for index in range(self._lists):
                bit = 1 << (index * len(phrases) + number)
                for word in phrase.needs[index] if index < len(phrase.needs) else ():
                    self._bits_of[word] = self._bits_of.get(word, 0) | bit
                if phrase.holds:
                    self._bits_outside_ascii |= bit
                elif index >= len(phrase.needs):
                    self._bits_of_all |= bit
        self.vocabulary: Final = frozenset(self._bits_of)
        """Every word that a phrase needs; no other word of a text matters."""

    def passing(self, text: str, words: frozenset[str]) -> Iterator[int]:
        """Yield, in order, the numbers of the phrases that ``text`` can match; ``words`` are its words
        that are in :attr:`vocabulary`."""
        bits_of, count = self._bits_of, len(self._phrases)
        holding = 0 if text.isascii() else self._bits_outside_ascii
        bits = self._bits_of_all | holding
        for word in words:
            bits |= bits_of[word]
        passing = bits & ((1 << count) - 1)
        for _ in range(1, self._lists):
            bits >>= count
            passing &= bits
        while passing:
            lowest = passing & -passing
            passing ^= lowest
            number = lowest.bit_length() - 1
            if not lowest & holding or any(part in text for part in self._phrases[number].holds):
                yield number
