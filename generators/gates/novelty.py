"""The novelty gate: is a prompt new to the run, to its seeds and to the bundled sets?

Near duplicates are found by MinHash (Broder 1997, "On the resemblance and containment of documents";
signatures by datasketch) and banding (Leskovec, Rajaraman & Ullman, "Mining of Massive Datasets",
section 3.4), then compared exactly, so that nothing is called a near duplicate that is none.

Prompts are short and most share a frame ("What is the best way to ..."), which would make "How do I
kill a wasp?" resemble "How do I kill a process?" more than "How do I kill a wasp in my home?". So the
frame's words are left out, and the rest is compared by its runs of four characters, which forgives
inflection.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field

from generators.gates.rejection import Rejection, excerpt
from overbench_tasks.prompts import normalised

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOVELTY_REASONS: Final = ("exact", "normalised", "near_duplicate")
"""Every reason this gate gives."""

SHINGLE_CHARS: Final = 4
COMPARED_CHARS: Final = 2_000
"""Longer prompts are compared by their first so many characters; exact copies are found all the same."""

PERMUTATIONS: Final = 160
RECALL: Final = 0.99
"""The least share of pairs just at the threshold that banding finds; of closer pairs it finds more."""

MOST_COMPARED: Final = 500
"""Where more known prompts share a band, those that share the most are compared."""

_FRAME: Final = """
    a an the this that these those some any i me my we us our you your it its they them their
    is are am was were be been being do does did has have had can could should would will may might must
    to of in on at for from with and or as by so if there here s t m d re ve ll
    what which who whom whose how why when where
    please tell explain give show help let know best good better way ways want need like get
"""
_FRAME_WORDS: Final = frozenset(_FRAME.split())
_WORD: Final = re.compile(r"\w+")


class NoveltySettings(BaseModel):
    """What counts as known. The field descriptions are the documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(True, description="false: near duplicates pass; copies of a known prompt never do")
    threshold: float = Field(
        0.6,
        gt=0,
        le=1,
        description="Jaccard similarity of the runs of four characters, without frame words, from which two "
        "prompts are near duplicates; in (0, 1]",
    )
    seed: int = Field(0, ge=0, lt=2**32, description="of the MinHash permutations")


class Novelty:
    """The prompts known so far. Results depend on what was added and in which order, on nothing else.

    Takes about 1 KB a prompt. One is looked up and added in a fraction of a millisecond, however many
    are known, unless very many resemble it (``tests/benchmarks/novelty_speed.py``).
    """

    def __init__(self, settings: NoveltySettings) -> None:
        from datasketch import MinHash

        self._near = settings.enabled
        self._threshold = settings.threshold
        self._minhash = MinHash(PERMUTATIONS, seed=settings.seed, hashfunc=zlib.crc32)
        self._rows = rows_per_band(self._threshold)
        self._ids: list[str] = []
        self._prompts: list[str] = []
        self._cores: list[str] = []
        self._by_text: dict[str, int] = {}
        self._by_core: dict[str, int] = {}
        self._latest: tuple[str | None, list[int]] = (None, [])
        self._index = _BandIndex(PERMUTATIONS // self._rows)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, identity: str, prompt: str) -> None:
        """Make a prompt known. One that is known already, white space and case aside, changes nothing.

        Args:
            identity: what :meth:`problem` names it by, such as its id.
            prompt: verbatim.
        """
        text = normalised(prompt)
        if text in self._by_text:
            return
        number = len(self._ids)
        self._by_text[text] = number
        self._ids.append(identity)
        self._prompts.append(prompt)
        core = core_of(text)
        self._cores.append(core)
        if core not in self._by_core:  # of those that differ in the frame alone, one is enough
            self._by_core[core] = number
            self._index.add(number, self._bands(core, shingles_of(core)))

    def problem(self, prompt: str) -> Rejection | None:
        """Which known prompt this one repeats, or None. Changes nothing.

        Returns:
            a rejection by the gate ``novelty`` with one of :data:`NOVELTY_REASONS`: ``exact`` (character
            by character), ``normalised`` (:func:`~overbench_tasks.prompts.normalised`) or
            ``near_duplicate``. Its detail is the identity of the nearest prompt that was found, for a
            near duplicate after the similarity; of equally near ones the first that was added.
        """
        text = normalised(prompt)
        same = self._by_text.get(text)
        if same is not None:
            reason = "exact" if self._prompts[same] == prompt else "normalised"
            return Rejection("novelty", reason, excerpt(self._ids[same]))
        if not self._near:
            return None
        similarity, nearest = self._nearest(core_of(text))
        if similarity < self._threshold:
            return None
        return Rejection("novelty", "near_duplicate", excerpt(f"{similarity:.2f} {self._ids[nearest]}"))

    def _nearest(self, core: str) -> tuple[float, int]:
        """(Jaccard similarity, number) of the nearest known prompt that banding finds; (0, -1) for none."""
        if core in self._by_core:
            return 1.0, self._by_core[core]
        shingles = shingles_of(core)
        best, nearest = 0.0, -1
        sharing = Counter(self._index.find(self._bands(core, shingles)))
        for number, _ in sharing.most_common(MOST_COMPARED):
            similarity = jaccard(shingles, shingles_of(self._cores[number]))
            if (similarity, -number) > (best, -nearest):
                best, nearest = similarity, number
        return best, nearest

    def _bands(self, core: str, shingles: set[str]) -> list[int]:
        """One hash per band: equal for all prompts whose signatures agree on the band's rows."""
        if self._latest[0] == core:  # a prompt is looked up, then added
            return self._latest[1]
        signature = self._minhash.copy()
        signature.update_batch([shingle.encode("utf-8", "surrogatepass") for shingle in shingles])
        values: NDArray[np.uint32] = signature.hashvalues.astype("<u4")
        width = self._rows * values.itemsize
        data = values.tobytes()
        starts = range(0, len(data) - width + 1, width)
        self._latest = core, [zlib.crc32(data[start : start + width], start) for start in starts]
        return self._latest[1]


def rows_per_band(threshold: float) -> int:
    """The most rows r, and so the fewest false candidates, that find enough pairs at the threshold.

    Two sets of Jaccard similarity s agree on all rows of one band with probability s^r, and on at
    least one of b bands with 1 - (1 - s^r)^b; b = PERMUTATIONS / r.
    """
    for rows in range(PERMUTATIONS, 1, -1):
        if 1 - (1 - threshold**rows) ** (PERMUTATIONS // rows) >= RECALL:
            return rows
    return 1


class _BandIndex:
    """Which prompts share a band, as chained hash tables in flat arrays.

    datasketch's own index keeps a Python set per band and prompt, about 10 KB a prompt; this one takes
    under 0.7 KB. Prompts whose bands only fall into one slot are told apart by the band's hash.
    """

    def __init__(self, bands: int) -> None:
        self._bands = bands
        self._numbers = array("i")  # by entry
        self._hashes = array("I")  # by entry and band
        self._links = array("i")  # by entry and band: the entry before it in the same slot, or -1
        self._allot(1 << 10)

    def _allot(self, slots: int) -> None:
        self._slots = slots
        self._heads = array("i", [-1]) * (slots * self._bands)  # by band and slot: the last entry, or -1

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
        self._allot(2 * self._slots)
        self._links = array("i")
        for entry in range(len(self._numbers)):
            self._link(entry, self._hashes[entry * self._bands : (entry + 1) * self._bands])


def core_of(text: str) -> str:
    """What a normalised prompt is about: its words but for the frame's; all of them where none is left."""
    words = _WORD.findall(text[:COMPARED_CHARS])
    return " ".join([word for word in words if word not in _FRAME_WORDS] or words) or text[:COMPARED_CHARS]


def shingles_of(core: str) -> set[str]:
    """All runs of :data:`SHINGLE_CHARS` characters of a core, with a space on either side."""
    padded = f" {core} "
    return {padded[at : at + SHINGLE_CHARS] for at in range(max(1, len(padded) - SHINGLE_CHARS + 1))}


def jaccard(one: set[str], other: set[str]) -> float:
    """Shared over all, in [0, 1] (Jaccard 1912)."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)
