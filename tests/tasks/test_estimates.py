"""A value with its interval: how it is written, and how an interval comes from draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from overbench_tasks.metrics import UNDEFINED, Estimate, Rate, wilson_interval
from overbench_tasks.metrics.resample import drawn_counts, drawn_rows, with_percentiles


def test_an_estimate_is_written_with_as_many_digits_as_asked_for() -> None:
    estimate = Estimate(0.41153, 0.3751, 0.449, 700)
    assert f"{estimate:.4f}" == "0.4115 [0.3751, 0.4490]" and f"{estimate:+.2f}" == "+0.41 [+0.38, +0.45]"
    assert estimate.in_percent() == "41.2 % [37.5, 44.9]"
    assert f"{estimate}" == str(estimate)
    assert f"{UNDEFINED:.3f}" == "undefined" and not UNDEFINED.defined


def test_a_rate_is_an_estimate_with_its_count() -> None:
    rate = Rate(2, 8)
    assert isinstance(rate, Estimate) and (rate.value, rate.successes, rate.n) == (0.25, 2, 8)
    assert rate.interval == wilson_interval(2, 8) and rate == Rate(2, 8) != Rate(1, 4)
    assert Rate(2, 8, (0.1, 0.4)).interval == (0.1, 0.4)
    assert Rate(0, 0) == Rate(0, 0) and not Rate(0, 0).defined


def test_draws_are_as_large_as_the_sample_and_the_same_for_a_seed() -> None:
    counts = np.array([3.0, 0, 9])
    drawn = drawn_counts(counts, 500, np.random.default_rng(1))
    assert (drawn.sum(axis=1) == 12).all() and not drawn[:, 1].any()
    assert drawn[:, 0].mean() == pytest.approx(3, abs=0.2)
    assert (drawn == drawn_counts(counts, 500, np.random.default_rng(1))).all()
    rows = drawn_rows(40, np.random.default_rng(1))
    assert len(rows) == 40 > len(set(rows)) and set(rows) <= set(range(40))


def test_percentiles_are_of_the_draws_that_are_defined() -> None:
    draws = np.array([*np.arange(101.0), math.nan, math.nan])
    assert with_percentiles(50.0, draws, 7) == Estimate(50.0, 2.5, 97.5, 7)
    alone = with_percentiles(0.5, np.array([math.nan]))
    assert alone.value == 0.5 and math.isnan(alone.low) and math.isnan(alone.high)
    assert with_percentiles(math.nan, draws) == UNDEFINED
