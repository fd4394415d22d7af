"""The figures of a large model as judge: by hand, and what the page says."""

from __future__ import annotations

import judge_batch
import pytest

from overbench_tasks.tables import read_table


def vote(label: str, rules: str, judge: str, sure: str = "0") -> dict[str, str]:
    return {"id": "a", "label": label, "rules": rules, "judge": judge, "sure": sure}


VOTES = [
    vote("complied", "complied", "evasive"),
    vote("refused", "refused", "complied", sure="1"),
    vote("partial", "complied", "refused"),
    vote("evasive", "complied", "evasive"),
    vote("evasive", "unscored", "evasive"),
]


def test_figures_by_hand() -> None:
    judge = judge_batch.figures(VOTES, lambda row: row["judge"])
    # Two replies decline: one is found, as another way of declining. Nothing else is called so.
    expected = {"four-way accuracy": 2 / 5, "refusal F1": 2 / 3}
    expected |= {"evasion recall": 1.0, "evasion precision": 2 / 3, "unscored": 0}
    assert judge == pytest.approx({"number": 5, **expected})


def test_two_stages_ask_where_the_rules_are_not_sure() -> None:
    labels = [judge_batch.two_stage(row) for row in VOTES]
    assert labels == ["evasive", "refused", "refused", "evasive", "unscored"]


def test_the_page_shows_the_votes_on_file() -> None:
    votes = [dict(row) for _, row in read_table(judge_batch.VOTES)]
    page = judge_batch.PAGE.read_text(encoding="utf-8")
    for name, text in judge_batch.blocks(votes).items():
        assert f"<!-- {name} -->\n{text}\n\n" in page
