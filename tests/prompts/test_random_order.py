"""The order of prompts that tells nothing, and the part of them that is spread over their categories."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overbench_tasks.metrics.stop_at_ci_width import part_interval
from overbench_tasks.prompts.random_order import in_random_order, random_order

Rows = list[dict[str, Any]]


def rows_of(sizes: dict[str | None, int], label: str = "safe") -> Rows:
    """Rows by category, as publishers have them: one category after the other."""
    return [
        {"id": f"{label} {category} {n}", "prompt_label": label, "category": category}
        for category, size in sizes.items()
        for n in range(size)
    ]


def in_pairs(sizes: dict[str | None, int]) -> Rows:
    """Pairs of a safe and an unsafe row."""
    return [
        {**half, "id": f"{half['id']} {label}", "pair_id": half["id"], "prompt_label": label}
        for half in rows_of(sizes)
        for label in ("safe", "unsafe")
    ]


SIZES = st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e", None]), st.integers(1, 30), min_size=1)


@given(st.lists(st.text(), unique=True, min_size=1), st.integers(0, 9))
def test_the_order_depends_on_ids_and_seed_alone(ids: list[str], seed: int) -> None:
    order = random_order(ids, seed)
    assert sorted(order) == sorted(ids)
    assert random_order(reversed(ids), seed) == order
    assert random_order(ids[1:], seed) == [prompt_id for prompt_id in order if prompt_id != ids[0]]


def test_the_two_of_a_pair_stay_together() -> None:
    rows = [*in_pairs({"a": 20}), *rows_of({"a": 1}, "alone")]
    order = [row["id"] for row in in_random_order(rows)]
    alone = order.index("alone a 0")
    pairs = order[:alone] + order[alone + 1 :]
    for safe_id, other in zip(pairs[::2], pairs[1::2], strict=True):
        assert safe_id.removesuffix(" safe") == other.removesuffix(" unsafe")
    assert sorted(order) == sorted(row["id"] for row in rows) and order != sorted(order)


@given(SIZES, st.integers(1, 100), st.integers(0, 99), st.randoms(use_true_random=False))
def test_each_category_has_its_share_and_the_order_of_rows_changes_nothing(
    sizes: dict[str | None, int], size: int, seed: int, shuffled: random.Random
) -> None:
    rows = rows_of(sizes)
    drawn = in_random_order(rows, size, seed)
    assert len(drawn) == min(size, len(rows)) == len({row["id"] for row in drawn})
    of_category = Counter(row["category"] for row in drawn)
    for category, count in sizes.items():
        assert abs(of_category[category] - len(drawn) * count / len(rows)) < 1
    shuffled.shuffle(rows)
    assert in_random_order(rows, size, seed) == drawn
    assert drawn == [row for row in in_random_order(rows, random_seed=seed) if row in drawn]


@given(SIZES, SIZES, st.integers(1, 100))
def test_of_two_sides_as_many_are_drawn_of_each_as_far_as_there_are(
    safe: dict[str | None, int], unsafe: dict[str | None, int], size: int
) -> None:
    rows = rows_of(safe) + rows_of(unsafe, "unsafe")
    sides = Counter(row["prompt_label"] for row in in_random_order(rows, size))
    there = {"safe": sum(safe.values()), "unsafe": sum(unsafe.values())}
    assert sides.total() == min(size, len(rows))
    for side, other in (("safe", "unsafe"), ("unsafe", "safe")):
        assert sides[side] <= -(-size // 2) or sides[other] == there[other]


@given(SIZES, st.integers(1, 100), st.integers(0, 9))
def test_pairs_are_drawn_whole_and_spread_over_categories(
    sizes: dict[str | None, int], size: int, seed: int
) -> None:
    drawn = in_random_order(in_pairs(sizes), size, seed)
    pairs = sum(sizes.values())
    assert len(drawn) == 2 * min(max(1, size // 2), pairs)
    for row, other in zip(drawn[::2], drawn[1::2], strict=True):
        assert row["pair_id"] == other["pair_id"]
    of_category = Counter(row["category"] for row in drawn)
    for category, count in sizes.items():
        assert abs(of_category[category] / 2 - len(drawn) / 2 * count / pairs) < 1


def test_each_prompt_is_drawn_as_often_as_any_other_also_of_a_small_category() -> None:
    rows, draws = rows_of({"large": 40, "small": 3, "alone": 1, None: 6}), 3000
    often = Counter(row["id"] for seed in range(draws) for row in in_random_order(rows, 10, seed))
    # 600 of 3,000 each, with a standard deviation of 22.
    assert len(often) == 50 and all(abs(count - draws / 5) < 110 for count in often.values())


@pytest.mark.parametrize("size", [20, 100])
def test_the_rate_on_a_part_is_that_on_all_but_for_chance_and_intervals_hold_it(size: int) -> None:
    """Rates that differ by category, as on XSTest: 0, 10, ..., 90 % of 25 prompts each."""
    rows = rows_of({f"c{n}": 25 for n in range(10)})
    refused = {row["id"] for n in range(10) for row in rows[25 * n : 25 * n + round(2.5 * n)]}
    truth, held, errors = len(refused) / len(rows), 0, []
    for seed in range(500):
        refusals = sum(row["id"] in refused for row in in_random_order(rows, size, seed))
        low, high = part_interval(refusals, size, len(rows))
        held += low <= truth <= high
        errors.append(refusals / size - truth)
    at_random = (truth * (1 - truth) / size * (1 - size / len(rows))) ** 0.5
    assert abs(sum(errors) / 500) < 4 * at_random / 500**0.5
    assert (sum(error**2 for error in errors) / 500) ** 0.5 < 0.9 * at_random
    assert held >= 0.95 * 500
