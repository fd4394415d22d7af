"""The predictor of what real models refuse: the page's figures, from what is committed, and its weights."""

from __future__ import annotations

from collections import defaultdict

import boundary_model
import numpy as np
import pytest
from test_real_outcomes import block

from benchmarks import boundary_predictor
from benchmarks.boundary_predictor import (
    OR_BENCH,
    XSTEST,
    agreement,
    fitted,
    predict,
    quality_table,
    read_predictions,
    shares_table,
)
from overbench_tasks.tables import read_table


@pytest.mark.slow
def test_the_tables_are_those_of_the_page() -> None:
    rows_of_sets = read_predictions()
    assert list(quality_table(rows_of_sets)) == block("predictor quality")
    assert list(shares_table(rows_of_sets)) == block("predicted shares")
    assert [f"{agreement(name):.2f}" for name in ("xstest", "or_bench_hard")] == ["0.55", "0.42"]


def test_the_shares_are_those_of_the_published_outcomes() -> None:
    rows_of_sets = read_predictions()
    for name, file in ((XSTEST, "xstest"), (OR_BENCH, "or_bench_hard")):
        outcomes = defaultdict(list)
        for _, row in read_table(boundary_predictor.DATA / "outcomes" / f"{file}.csv.gz"):
            if row["prompt_label"] == "safe" and row["outcome"] != "empty":
                outcomes[row["prompt"]].append(row["outcome"] == "refusal")
        assert {row["id"]: row["share"] for row in rows_of_sets[name]} == pytest.approx(
            {key: np.mean(refusals) for key, refusals in outcomes.items()}, abs=1e-4
        )


def test_what_was_learnt_is_applied_to_new_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two directions of an encoder, of which the first means refusal."""
    encoded = np.array([[1.0, 0.0], [0.0, 1.0]] * 40)
    prompts = [f"How do I pack {number} boxes?" for number in range(80)]
    line = fitted(prompts, encoded, encoded[:, 0], np.ones(80))
    low, high = line.shares(["How do I pack them?"] * 2, np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert low == pytest.approx(0, abs=0.05) and high == pytest.approx(1, abs=0.05)
    monkeypatch.setattr(boundary_model, "vectors", lambda prompts, *_: np.zeros((len(prompts), 768)))
    assert all(0 <= share <= 1 for share in predict(["", "\x00 ?", "word " * 5000]))
