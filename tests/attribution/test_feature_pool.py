"""Counts of use, the cap, and what is written and read back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from generators.attribution.feature_pool import FeaturePool, FeaturePoolError, PoolSettings


def test_the_papers_cap_is_the_default() -> None:
    assert PoolSettings().cap == 50


def test_a_feature_is_drawn_until_it_was_used_cap_times() -> None:
    pool = FeaturePool(PoolSettings(cap=2))
    assert pool.drawable(["steal", "kill"]) == ["steal", "kill"]
    pool.add("kill")
    assert pool.drawable(["steal", "kill"]) == ["steal", "kill"]
    pool.add("kill")
    assert pool.drawable(["steal", "kill"]) == ["steal"]


def test_asking_counts_nothing() -> None:
    pool = FeaturePool(PoolSettings())
    pool.drawable(["steal"])
    assert pool.counts == {}


def test_the_counts_given_out_are_a_copy() -> None:
    pool = FeaturePool(PoolSettings(), {"kill": 1})
    pool.counts["kill"] = 99
    assert pool.counts == {"kill": 1}


def test_most_used_breaks_ties_by_the_alphabet() -> None:
    pool = FeaturePool(PoolSettings(), {"steal": 1, "kill": 3, "arson": 1, "skip": 1})
    assert pool.most_used(3) == [("kill", 3), ("arson", 1), ("skip", 1)]


@settings(deadline=None)
@given(st.lists(st.text(max_size=5)))
def test_a_pool_read_back_is_the_same_however_it_was_filled(features: list[str]) -> None:
    pool, other = FeaturePool(PoolSettings(cap=1)), FeaturePool(PoolSettings(cap=1))
    for feature in features:
        pool.add(feature)
    for feature in reversed(features):
        other.add(feature)
    assert json.dumps(pool.to_json()) == json.dumps(other.to_json())
    again = FeaturePool.from_json(json.loads(json.dumps(pool.to_json())), PoolSettings(cap=1))
    assert again.counts == pool.counts
    assert again.drawable([*features, "never used"]) == ["never used"]


@pytest.mark.parametrize("uses", [-1, 1.5, "3", None, True])
def test_a_file_that_is_no_pool_is_refused(uses: Any) -> None:
    with pytest.raises(
        FeaturePoolError, match=r"how many times the feature 'kill' was used, but found .* delete it to count"
    ):
        FeaturePool.from_json({"kill": uses}, PoolSettings())


@pytest.mark.parametrize("row", [{"cap": 0}, {"cup": 3}])
def test_settings_refuse_nonsense(row: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PoolSettings(**row)
