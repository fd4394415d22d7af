"""Finds near duplicates: one text at a time for the novelty filter, all at once for a release.

Similarity is the Jaccard similarity of runs of four characters. Prompts are short and most share a frame
("What is the best way to ..."), by which "How do I kill a wasp?" would resemble "How do I kill a process?"
more than "How do I kill a wasp in my home?". So the frame's words are left out. Runs of characters also
tolerate inflected forms.

Candidates are found by MinHash (Broder 1997, "On the resemblance and containment of documents") and banding
(Leskovec, Rajaraman & Ullman, "Mining of Massive Datasets", section 3.4), then compared exactly: nothing is
called a near duplicate by mistake. Hashes are computed in numpy, for many texts at a time; one run at a time,
as libraries do it, they take minutes for a release.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHINGLE_CHARS: Final = 4
COMPARED_CHARS: Final = 2_000
"""Of a longer text only this many characters are compared."""

PERMUTATIONS: Final = 160
RECALL: Final = 0.99
"""Banding finds at least this share of the pairs right at the threshold, and more of closer pairs."""

MOST_COMPARED: Final = 500
"""If more texts share a band with a new text, those that share the most bands are compared."""

_CHUNK: Final = 64
"""Texts that are hashed at once: a few megabytes, which stay in the processor's cache."""

_FRAME: Final = """
    a an the this that these those some any i me my we us our you your it its they them their
    is are am was were be been being do does did has have had can could should would will may might must
    to of in on at for from with and or as by so if there here s t m d re ve ll
    what which who whom whose how why when where
    please tell explain give show help let know best good better way ways want need like get
"""
_FRAME_WORDS: Final = frozenset(_FRAME.split())
# Not the words of generators/words.py: this is four times as fast, and releases were made with it.
# It cuts at apostrophes ("don t", "we ll"), which the frame's words allow for.
_WORD_CHARACTERS: Final = re.compile(r"\w+")


def core_of(text: str) -> str:
    """The words of a normalised prompt without the frame's, or all of them if none are left."""
    words = _WORD_CHARACTERS.findall(text[:COMPARED_CHARS])
    return " ".join([word for word in words if word not in _FRAME_WORDS] or words) or text[:COMPARED_CHARS]


def shingles_of(core: str) -> set[str]:
    """All runs of :data:`SHINGLE_CHARS` characters of a core, with a space on either side."""
    padded = f" {core} "
    return {padded[at : at + SHINGLE_CHARS] for at in range(max(1, len(padded) - SHINGLE_CHARS + 1))}


def jaccard(first: set[str], second: set[str]) -> float:
    """The size of the intersection over that of the union, in [0, 1] (Jaccard 1912)."""
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared)


def rows_per_band(threshold: float) -> int:
    """The rows of a band: the most, and so the fewest false candidates, that find enough pairs.

    Two sets of Jaccard similarity s agree on all rows of one band with probability s^r, and on at
    least one of b bands with 1 - (1 - s^r)^b; b = PERMUTATIONS / r.
    """
    most_first = range(PERMUTATIONS, 1, -1)
    return next((r for r in most_first if 1 - (1 - threshold**r) ** (PERMUTATIONS // r) >= RECALL), 1)


class DuplicateFinder:
    """Finds the nearest of the texts added so far, one text at a time.

    Results depend only on which texts were added, and in which order. A text takes about 1 KB of memory. To
    look it up and add it takes a fraction of a millisecond, however many texts there are, unless very many
    resemble it (``benchmarks/novelty_speed.py``).

    Args:
        threshold: Jaccard similarity in (0, 1]. At least 99 % of texts nearer than that are found.
        random_seed: of the MinHash permutations.
    """

    def __init__(self, threshold: float, random_seed: int = 0) -> None:
        self._signer = _Signer(random_seed, rows_per_band(threshold))
        self._cores: list[str] = []
        self._by_core: dict[str, int] = {}
        self._latest: tuple[str | None, list[int]] = (None, [])
        self._index = _BandIndex(self._signer.bands)

    def add(self, text: str) -> None:
        """Add a normalised text. Texts are numbered from 0 in the order they are added."""
        core = core_of(text)
        number = len(self._cores)
        self._cores.append(core)
        if core not in self._by_core:  # texts that differ only in the frame need one entry
            self._by_core[core] = number
            self._index.add(number, self._bands(core))

    def nearest(self, text: str) -> tuple[float, int]:
        """(Jaccard similarity, number) of the nearest text that is found; (0, -1) if none is.

        Of equally near texts, the text that was added first is taken. Adds nothing.
        """
        core = core_of(text)
        if core in self._by_core:
            return 1.0, self._by_core[core]
        shingles = shingles_of(core)
        best, nearest = 0.0, -1
        for number, _ in Counter(self._index.find(self._bands(core))).most_common(MOST_COMPARED):
            similarity = jaccard(shingles, shingles_of(self._cores[number]))
            if (similarity, -number) > (best, -nearest):
                best, nearest = similarity, number
        return best, nearest

    def _bands(self, core: str) -> list[int]:
        if self._latest[0] != core:  # a text is looked up, then added
            self._latest = core, self._signer.bands_of([core])[0].tolist()
        return self._latest[1]


def near_duplicates(prompts: Sequence[str], threshold: float) -> list[int]:
    """Which prompts to drop, so that no two of those that remain are near duplicates.

    Greedy, in order: a prompt is dropped if it resembles an earlier prompt that stays. At least 99 % of the
    pairs right at the threshold are found, and more of closer pairs.

    Args:
        prompts: normalised (:func:`overbench_tasks.prompts.normalised`), in the order of preference.
        threshold: Jaccard similarity in (0, 1] from which two prompts are near duplicates.

    Returns:
        the indices of the prompts to drop, ascending.
    """
    import numpy as np

    bands = _Signer(0, rows_per_band(threshold)).bands_of([core_of(prompt) for prompt in prompts])
    alike = np.zeros(len(prompts), dtype=bool)
    for band in bands.T:
        _, groups, counts = np.unique(band, return_inverse=True, return_counts=True)
        alike |= counts[groups] > 1
    finder = DuplicateFinder(threshold)
    dropped = []
    for number in np.flatnonzero(alike).tolist():  # most prompts share no band with another
        if finder.nearest(prompts[number])[0] >= threshold:
            dropped.append(number)
        else:
            finder.add(prompts[number])
    return dropped


class _Signer:
    """MinHash by multiply-shift: the high half of (odd * x + b) mod 2^64, x mixed beforehand."""

    def __init__(self, random_seed: int, rows: int) -> None:
        import numpy as np

        generator = np.random.default_rng(random_seed)
        odd = generator.integers(0, 2**63, PERMUTATIONS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self._factors = odd[:, None]
        self._offsets = generator.integers(0, 2**63, PERMUTATIONS, dtype=np.uint64)[:, None]
        self._rows = rows
        self.bands = PERMUTATIONS // rows

    def bands_of(self, cores: Sequence[str]) -> NDArray[np.uint32]:
        """(cores, bands) hashes, which are equal where signatures agree on all rows of the band."""
        import numpy as np

        hashes = np.empty((len(cores), self.bands), dtype=np.uint32)
        for start in range(0, len(cores), _CHUNK):
            shingles, starts = _hashed_shingles(cores[start : start + _CHUNK])
            permuted = self._factors * shingles  # a row for each permutation
            permuted += self._offsets
            signatures = np.minimum.reduceat(permuted, starts, axis=1) >> np.uint64(32)
            mixed = np.zeros((self.bands, len(starts)), dtype=np.uint64)
            for row in range(self._rows):
                mixed = (mixed ^ signatures[row :: self._rows][: self.bands]) * np.uint64(0xFF51AFD7ED558CCD)
                mixed ^= mixed >> np.uint64(32)
            hashes[start : start + _CHUNK] = (mixed >> np.uint64(32)).T
        return hashes


def _hashed_shingles(cores: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The hashes of the shingles of all cores, joined, and the index at which each core begins."""
    import numpy as np

    padded = [f" {text} ".ljust(SHINGLE_CHARS) for text in cores]
    joined = "".join(padded).encode("utf-32-le", "surrogatepass")
    characters = np.frombuffer(joined, dtype="<u4").astype(np.uint64)
    ends = np.cumsum([len(text) for text in padded])
    mixed = np.zeros(len(characters) - SHINGLE_CHARS + 1, dtype=np.uint64)
    for offset in range(SHINGLE_CHARS):
        # A character has 21 bits. Four of them do not fit into 64, but every step mixes the bits.
        part = characters[offset : offset + len(mixed)]
        mixed = (mixed ^ part) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    starting = np.ones(len(characters), dtype=bool)
    for back in range(1, SHINGLE_CHARS):
        starting[ends - back] = False  # such a run would reach into the next core
    runs = np.diff(ends, prepend=0) - SHINGLE_CHARS + 1
    return mixed[starting[: len(mixed)]], np.cumsum(runs) - runs


class _BandIndex:
    """Texts by band: chained hash tables in flat arrays, under 0.7 KB a text (dicts: 10 KB)."""

    def __init__(self, bands: int) -> None:
        self._bands = bands
        self._numbers = array("i")  # by entry
        self._hashes = array("I")  # by entry and band
        self._links = array("i")  # by entry and band: the entry before it in the same slot, or -1
        self._slots = 1 << 9
        self._grow()

    def add(self, number: int, hashes: list[int]) -> None:
        if len(self._numbers) >= self._slots:
            self._grow()
        self._numbers.append(number)
        self._hashes.extend(hashes)
        self._link(len(self._numbers) - 1, hashes)

    def find(self, hashes: list[int]) -> Iterator[int]:
        """The texts that share a band with these hashes, once for each band shared."""
        for band, value in enumerate(hashes):
            entry = self._heads[band * self._slots + value % self._slots]
            while entry >= 0:
                index = entry * self._bands + band
                if self._hashes[index] == value:
                    yield self._numbers[entry]
                entry = self._links[index]

    def _link(self, entry: int, hashes: Sequence[int]) -> None:
        for band, value in enumerate(hashes):
            slot = band * self._slots + value % self._slots
            self._links.append(self._heads[slot])
            self._heads[slot] = entry

    def _grow(self) -> None:
        self._slots *= 2
        # By band and slot: the last entry, or -1.
        self._heads = array("i", [-1]) * (self._slots * self._bands)
        self._links = array("i")
        for entry in range(len(self._numbers)):
            self._link(entry, self._hashes[entry * self._bands : (entry + 1) * self._bands])
