"""Near duplicates, one text at a time and all at once, against comparing every pair."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from generators.near_duplicates import (
    MOST_COMPARED,
    DuplicateFinder,
    _BandIndex,
    core_of,
    jaccard,
    near_duplicates,
    rows_per_band,
    shingles_of,
)


def _variants(count: int) -> list[str]:
    """Prompts of nine to twelve words; half of them are an earlier one with a word or two changed."""
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefghiklmnoprstu", k=rng.randint(3, 9))) for _ in range(300)]
    prompts: list[str] = []
    for _ in range(count):
        text = rng.choices(words, k=rng.randint(9, 12))
        if prompts and rng.random() < 0.5:
            text = rng.choice(prompts).split()
            text[rng.randrange(len(text))] = rng.choice(words)
        prompts.append(" ".join(text))
    return prompts


@pytest.mark.parametrize("threshold", [0.4, 0.6, 0.8])
def test_near_copies_are_those_that_comparing_all_pairs_finds(threshold: float) -> None:
    texts = _variants(600)
    finder = DuplicateFinder(threshold)
    shingles = [shingles_of(core_of(text)) for text in texts]
    near, truly, kept, dropped = set(), set(), [], set()
    for number, text in enumerate(texts):
        if any(jaccard(shingles[number], other) >= threshold for other in shingles[:number]):
            truly.add(number)
        if any(jaccard(shingles[number], other) >= threshold for other in kept):
            dropped.add(number)
        else:
            kept.append(shingles[number])
        if finder.nearest(text)[0] >= threshold:
            near.add(number)
        finder.add(text)
    assert len(truly) > 50 and near <= truly
    assert len(truly - near) <= 0.01 * len(truly)
    # All at once, what resembles a dropped one alone stays.
    at_once = set(near_duplicates(texts, threshold))
    assert len(at_once ^ dropped) <= 0.02 * len(dropped)


def test_what_resembles_only_a_dropped_one_stays() -> None:
    draw = random.Random(2)
    words = ["".join(draw.choices("abcdefghijklmnop", k=6)) for _ in range(22)]
    first, second = words[:20], [words[20], *words[1:20]]
    third = [words[20], *words[1:10], words[21], *words[11:20]]
    texts = [" ".join(text) for text in (first, second, third)]
    assert near_duplicates(texts, 0.85) == near_duplicates(texts[1:], 0.85) == [1]


def test_short_and_empty_cores() -> None:
    assert near_duplicates([], 0.8) == near_duplicates(["x"], 0.8) == []
    assert near_duplicates(["a", "?", "b", "how do i x", "x"], 0.8) == [4]


@pytest.mark.parametrize(("threshold", "rows"), [(0.6, 4), (0.5, 3), (1.0, 160), (0.01, 1)])
def test_rows_per_band(threshold: float, rows: int) -> None:
    # 0.6: 1 - (1 - 0.6^4)^40 = 0.996, but 1 - (1 - 0.6^5)^32 = 0.925
    assert rows_per_band(threshold) == rows


def test_the_band_index_finds_what_shares_a_band_however_it_grew() -> None:
    rng = random.Random(1)
    index = _BandIndex(3)
    # Equal modulo every table size, yet different hashes: told apart.
    bands = [[rng.randrange(40) + (rng.randrange(3) << 28) for _ in range(3)] for _ in range(5000)]
    for number, hashes in enumerate(bands):
        index.add(number, hashes)
    for hashes in bands[::500]:
        shared = [sum(map(int.__eq__, hashes, other)) for other in bands]
        assert Counter(index.find(hashes)) == Counter(dict(enumerate(shared)))


def test_many_alike_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = DuplicateFinder(0.5)
    for n in range(2 * MOST_COMPARED):
        finder.add(f"can you find the home address of singer number {n * 7919}?")
    compared = []
    monkeypatch.setattr("generators.near_duplicates.jaccard", lambda first, other: compared.append(1) or 0.0)
    finder.nearest("can you find the home address of singer number 12345678?")
    assert len(compared) == MOST_COMPARED
