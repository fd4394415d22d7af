"""Near duplicates among hundreds of thousands of prompts.

The measure is that of the refresh's novelty gate (:mod:`generators.gates.novelty`): the Jaccard similarity of
the runs of four characters, without the words of the frame. So is the method, MinHash (Broder 1997) with
banding (Leskovec, Rajaraman & Ullman, "Mining of Massive Datasets", section 3.4) and an exact comparison of
whatever it finds; but where the gate takes prompts one by one, this takes all at once, in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from generators.gates.novelty import PERMUTATIONS, SHINGLE_CHARS, core_of, jaccard, rows_per_band, shingles_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_COMPARED: Final = 30
"""Of the prompts that share a band, each is compared with so many that come first in order."""

_CHUNK: Final = 4_000
_SLACK: Final = 0.2
"""Pairs whose signatures put them this far below the threshold are not compared exactly. The estimate's
standard error is at most 0.5 / sqrt(160) = 0.04."""


def near_duplicates(prompts: Sequence[str], threshold: float) -> list[tuple[int, int, float]]:
    """Which prompts to drop, so that no two of those that stay are near duplicates.

    Greedy, in order: a prompt is dropped if it resembles an earlier one that stays. Of pairs right at
    the threshold at least 99 % are found, of closer ones more.

    Args:
        prompts: normalised (:func:`overbench_tasks.prompts.normalised`), those to be kept first.
        threshold: Jaccard similarity in (0, 1] from which two are near duplicates.

    Returns:
        (the dropped, the earlier one it resembles, their similarity), numbers from 0 in ``prompts``,
        by the dropped.
    """
    import numpy as np

    cores = [core_of(prompt) for prompt in prompts]
    first: dict[str, int] = {}
    twins = {n: earlier for n, text in enumerate(cores) if (earlier := first.setdefault(text, n)) != n}
    # Prompts that differ in the frame alone have one core, and one signature is enough.
    distinct = np.array(list(first.values()), dtype=np.int64)
    dropped: dict[int, tuple[int, float]] = {}
    for later, earlier in _candidates([cores[n] for n in distinct], threshold):
        one, other = int(distinct[later]), int(distinct[earlier])
        if one in dropped or other in dropped:
            continue
        similarity = jaccard(shingles_of(cores[one]), shingles_of(cores[other]))
        if similarity >= threshold:
            dropped[one] = other, similarity
    for twin, earlier in twins.items():
        dropped[twin] = dropped.get(earlier, (earlier, 1.0))
    return [(number, other, similarity) for number, (other, similarity) in sorted(dropped.items())]


def _candidates(cores: Sequence[str], threshold: float) -> list[tuple[int, int]]:
    """(later, earlier) pairs that share a band and whose signatures are alike, in order."""
    import numpy as np

    if len(cores) < 2:
        return []
    signatures = _signatures(cores)
    rows = rows_per_band(threshold)
    found: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    for start in range(0, PERMUTATIONS - rows + 1, rows):
        pairs = _sharing(np.ascontiguousarray(signatures[:, start : start + rows]))
        alike = _alike(signatures, pairs, threshold - _SLACK)
        found = np.union1d(found, alike)  # sorted
    return [(int(code) // len(cores), int(code) % len(cores)) for code in found]


def _signatures(cores: Sequence[str]) -> NDArray[np.uint32]:
    """MinHash signatures. Shape (cores, PERMUTATIONS)."""
    import numpy as np

    generator = np.random.default_rng(0)
    # Multiply-shift: the high half of (odd * x + b) mod 2^64, for x of 64 bits mixed beforehand.
    factors = generator.integers(0, 2**63, PERMUTATIONS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    offsets = generator.integers(0, 2**63, PERMUTATIONS, dtype=np.uint64)
    signatures = np.empty((len(cores), PERMUTATIONS), dtype=np.uint32)
    for start in range(0, len(cores), _CHUNK):
        chunk = cores[start : start + _CHUNK]
        hashes, starts = _hashed_shingles(chunk)
        for column in range(PERMUTATIONS):
            permuted = ((hashes * factors[column] + offsets[column]) >> np.uint64(32)).astype(np.uint32)
            signatures[start : start + len(chunk), column] = np.minimum.reduceat(permuted, starts)
    return signatures


def _hashed_shingles(cores: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """A hash of every run of characters of all cores, one after the other, and where each core begins.

    The runs are those of :func:`generators.gates.novelty.shingles_of`: of the core, a space on either side.
    """
    import numpy as np

    padded = [f" {text} ".ljust(SHINGLE_CHARS) for text in cores]
    joined = "".join(padded).encode("utf-32-le", "surrogatepass")
    characters = np.frombuffer(joined, dtype="<u4").astype(np.uint64)
    lengths = np.array([len(text) for text in padded], dtype=np.int64)
    ends = np.cumsum(lengths)
    mixed = np.zeros(len(characters) - SHINGLE_CHARS + 1, dtype=np.uint64)
    for place in range(SHINGLE_CHARS):
        # 21 bits hold a character; four of them overlap a little at the top, and are mixed anyway.
        part = characters[place : place + len(mixed)]
        mixed = (mixed ^ part) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    starting = np.ones(len(characters), dtype=bool)
    for back in range(1, SHINGLE_CHARS):
        starting[ends - back] = False  # a run that would reach into the next core
    hashes = mixed[starting[: len(mixed)]]
    runs = lengths - SHINGLE_CHARS + 1
    return hashes, np.concatenate([[0], np.cumsum(runs)[:-1]])


def _sharing(band: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Pairs that agree on all rows of a band. Shape (pairs, 2): later, earlier.

    Of many that agree, each is paired with the first :data:`MOST_COMPARED`.
    """
    import numpy as np

    mixed = np.zeros(len(band), dtype=np.uint64)
    for column in range(band.shape[1]):
        mixed = (mixed ^ band[:, column]) * np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(32)
    order = np.argsort(mixed, kind="stable")
    ordered = mixed[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.append(begins, len(ordered)))
    first = np.repeat(begins, sizes)
    place = np.arange(len(ordered)) - first
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for step in range(min(MOST_COMPARED, int(sizes.max()) - 1)):
        later = np.flatnonzero(place > step)
        pairs.append(np.stack([order[later], order[first[later] + step]], axis=1))
    return np.concatenate(pairs)


def _alike(signatures: NDArray[np.uint32], pairs: NDArray[np.int64], least: float) -> NDArray[np.int64]:
    """Codes later * n + earlier of the pairs whose signatures agree on this share of rows at least."""
    import numpy as np

    kept = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(pairs), 100_000):
        some = pairs[start : start + 100_000]
        share = (signatures[some[:, 0]] == signatures[some[:, 1]]).mean(axis=1)
        near = some[share >= least]
        kept.append(near[:, 0] * len(signatures) + near[:, 1])
    return np.concatenate(kept)
