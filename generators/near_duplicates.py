"""The one finder of near duplicates: for the novelty filter one text at a time, for a release all at once.

The measure is the Jaccard similarity of runs of four characters. Prompts are short and most share a frame
("What is the best way to ..."), which would make "How do I kill a wasp?" resemble "How do I kill a
process?" more than "How do I kill a wasp in my home?". So the frame's words are left out, and the runs of
characters forgive inflection.

Candidates are found by MinHash (Broder 1997, "On the resemblance and containment of documents") and
banding (Leskovec, Rajaraman & Ullman, "Mining of Massive Datasets", section 3.4), then compared exactly,
so that nothing is called a near duplicate that is none. Hashes are made in numpy, many texts at a time: run
by run, as libraries do it, they take minutes for a release.
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
"""Longer texts are compared by their first so many characters."""

PERMUTATIONS: Final = 160
RECALL: Final = 0.99
"""The least share of pairs just at the threshold that banding finds; of closer pairs it finds more."""

MOST_COMPARED: Final = 500
"""Where more known texts share a band with a new one, those that share the most are compared."""

_CHUNK: Final = 64
"""Texts whose runs are permuted at once: a few megabytes, which stay in the processor's cache."""

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
    """What a normalised prompt is about: its words but for the frame's; all of them where none is left."""
    words = _WORD_CHARACTERS.findall(text[:COMPARED_CHARS])
    return " ".join([word for word in words if word not in _FRAME_WORDS] or words) or text[:COMPARED_CHARS]


def shingles_of(core: str) -> set[str]:
    """All runs of :data:`SHINGLE_CHARS` characters of a core, with a space on either side."""
    padded = f" {core} "
    return {padded[at : at + SHINGLE_CHARS] for at in range(max(1, len(padded) - SHINGLE_CHARS + 1))}


def jaccard(one: set[str], other: set[str]) -> float:
    """Shared over all, in [0, 1] (Jaccard 1912)."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def rows_per_band(threshold: float) -> int:
    """The most rows r, and so the fewest false candidates, that find enough pairs at the threshold.

    Two sets of Jaccard similarity s agree on all rows of one band with probability s^r, and on at
    least one of b bands with 1 - (1 - s^r)^b; b = PERMUTATIONS / r.
    """
    most_first = range(PERMUTATIONS, 1, -1)
    return next((r for r in most_first if 1 - (1 - threshold**r) ** (PERMUTATIONS // r) >= RECALL), 1)


class DuplicateFinder:
    """Finds the nearest of the texts known so far, one text at a time.

    Results depend on what was added and in which order, on nothing else. Takes about 1 KB a text. One is
    looked up and added in a fraction of a millisecond, however many are known, unless very many resemble
    it (``benchmarks/novelty_speed.py``).

    Args:
        threshold: Jaccard similarity in (0, 1]. Of texts nearer than that at least 99 % are found.
        seed: of the MinHash permutations.
    """

    def __init__(self, threshold: float, seed: int = 0) -> None:
        self._signer = _Signer(seed, rows_per_band(threshold))
        self._cores: list[str] = []
        self._by_core: dict[str, int] = {}
        self._latest: tuple[str | None, list[int]] = (None, [])
        self._index = _BandIndex(self._signer.bands)

    def add(self, text: str) -> None:
        """Make a normalised text known. Texts are numbered from 0 as they come."""
        core = core_of(text)
        number = len(self._cores)
        self._cores.append(core)
        if core not in self._by_core:  # of those that differ in the frame alone, one is enough
            self._by_core[core] = number
            self._index.add(number, self._bands(core))

    def nearest(self, text: str) -> tuple[float, int]:
        """(Jaccard similarity, number) of the nearest known text that is found; (0, -1) for none.

        Of equally near ones the first that was added. Changes nothing.
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
    """Which prompts to drop, so that no two of those that stay are near duplicates.

    Greedy, in order: a prompt is dropped if it resembles an earlier one that stays. Of pairs right at
    the threshold at least 99 % are found, of closer ones more.

    Args:
        prompts: normalised (:func:`overbench_tasks.prompts.normalised`), those to be kept first.
        threshold: Jaccard similarity in (0, 1] from which two are near duplicates.

    Returns:
        their numbers, from 0 in ``prompts``, ascending.
    """
    import numpy as np

    bands = _Signer(0, rows_per_band(threshold)).bands_of([core_of(prompt) for prompt in prompts])
    alike = np.zeros(len(prompts), dtype=bool)
    for band in bands.T:
        _, places, counts = np.unique(band, return_inverse=True, return_counts=True)
        alike |= counts[places] > 1
    finder = DuplicateFinder(threshold)
    dropped = []
    for number in np.flatnonzero(alike).tolist():  # most prompts share no band with any other
        if finder.nearest(prompts[number])[0] >= threshold:
            dropped.append(number)
        else:
            finder.add(prompts[number])
    return dropped


class _Signer:
    """MinHash by multiply-shift: the high half of (odd * x + b) mod 2^64, x mixed beforehand."""

    def __init__(self, seed: int, rows: int) -> None:
        import numpy as np

        generator = np.random.default_rng(seed)
        odd = generator.integers(0, 2**63, PERMUTATIONS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self._factors = odd[:, None]
        self._offsets = generator.integers(0, 2**63, PERMUTATIONS, dtype=np.uint64)[:, None]
        self._rows = rows
        self.bands = PERMUTATIONS // rows

    def bands_of(self, cores: Sequence[str]) -> NDArray[np.uint32]:
        """(cores, bands) hashes: equal for all cores whose signatures agree on the band's rows."""
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
    """A hash of every run of characters of all cores, one after the other, and where each core begins.

    The runs are those of :func:`shingles_of`: of the core, a space on either side.
    """
    import numpy as np

    padded = [f" {text} ".ljust(SHINGLE_CHARS) for text in cores]
    joined = "".join(padded).encode("utf-32-le", "surrogatepass")
    characters = np.frombuffer(joined, dtype="<u4").astype(np.uint64)
    ends = np.cumsum([len(text) for text in padded])
    mixed = np.zeros(len(characters) - SHINGLE_CHARS + 1, dtype=np.uint64)
    for place in range(SHINGLE_CHARS):
        # 21 bits hold a character; four of them overlap a little at the top, and are mixed anyway.
        part = characters[place : place + len(mixed)]
        mixed = (mixed ^ part) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    starting = np.ones(len(characters), dtype=bool)
    for back in range(1, SHINGLE_CHARS):
        starting[ends - back] = False  # a run that would reach into the next core
    runs = np.diff(ends, prepend=0) - SHINGLE_CHARS + 1
    return mixed[starting[: len(mixed)]], np.cumsum(runs) - runs


class _BandIndex:
    """Which prompts share a band, as chained hash tables in flat arrays: under 0.7 KB a prompt.

    A dict of lists per band takes about 10 KB. Bands that only fall into one slot are told apart by hash.
    """

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
        """The prompts that share a band with these hashes, once per band shared."""
        for band, value in enumerate(hashes):
            entry = self._heads[band * self._slots + value % self._slots]
            while entry >= 0:
                place = entry * self._bands + band
                if self._hashes[place] == value:
                    yield self._numbers[entry]
                entry = self._links[place]

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
