"""Stopping by width: the interval, the order, and that intervals at the stop hold the rate."""

from __future__ import annotations

import math

import pytest
from benchmarks.cheaper_coverage import stopping
from hypothesis import given
from hypothesis import strategies as st

from overbench_tasks.metrics.until_width import (
    narrow_enough,
    random_order,
    sequential_interval,
    stopped_early,
)


def test_an_interval_worked_by_hand() -> None:
    """20 of 100, of 397 prompts: n_eff = 100 * 396 / 297 = 400/3, z² = 4.41,

    centre = (0.2 + 4.41 / 266.667) / (1 + 4.41 / 133.333) = 0.209605,
    half = 2.1 / 1.033075 * sqrt(0.16 / 133.333 + 4.41 / 71111.1) = 0.072214, and half a step of 1 / 794.
    """
    assert sequential_interval(20, 100, 397) == pytest.approx((0.136132, 0.283078), abs=1e-6)
    assert narrow_enough(20, 100, 397, 0.147) and not narrow_enough(20, 100, 397, 0.146)
    assert stopped_early(20, 100, 397, 0.15) == (
        "Estimate from 100 of 397 prompts, stopped at a width of 15 points: 20.0 % [13.6, 28.3]"
    )


@given(st.data())
def test_intervals_hold_the_estimate_and_only_what_can_still_be(data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 5000))
    n = data.draw(st.integers(1, total))
    refused = data.draw(st.integers(0, n))
    low, high = sequential_interval(refused, n, total)
    assert refused / total - 1e-9 <= low <= refused / n + 1e-9
    assert refused / n - 1e-9 <= high <= (refused + total - n) / total + 1e-9
    assert n < total or low == high == refused / n


def test_nothing_scored_never_stops_and_bad_numbers_are_errors() -> None:
    assert all(map(math.isnan, sequential_interval(0, 0, 10)))
    assert not narrow_enough(0, 0, 10, 0.5)
    for refused, n, total in ((2, 1, 10), (-1, 1, 10), (1, 11, 10)):
        with pytest.raises(ValueError, match="refused <= n <= total"):
            sequential_interval(refused, n, total)
    with pytest.raises(ValueError, match="width between 0 and 1, got 4"):
        narrow_enough(1, 50, 100, 4)


@given(st.lists(st.text(), unique=True, min_size=1), st.integers(0, 9))
def test_the_order_depends_on_ids_and_seed_alone(ids: list[str], seed: int) -> None:
    order = random_order(ids, seed)
    assert sorted(order) == sorted(ids)
    assert random_order(reversed(ids), seed) == order
    assert random_order(ids[1:], seed) == [one for one in order if one != ids[0]]


@pytest.mark.parametrize(("rate", "total", "width"), [(0.01, 5000, 0.1), (0.07, 200, 0.06), (0.5, 1555, 0.1)])
def test_intervals_at_the_stop_hold_the_rate(rate: float, total: int, width: float) -> None:
    held, used = stopping(sequential_interval, rate, total, width, trials=1000, seed=0)
    assert held >= 0.93
    assert used < 0.9
