"""A large model's replies to candidates for OVERBENCH 3: what is a full answer, and what is committed."""

from __future__ import annotations

import candidate_answers
import pytest
import release_tiers
from candidate_readings import DATA, candidates, qualifies, readings


@pytest.mark.parametrize(
    ("label", "diluted", "expected"),
    [
        ("complied", False, "complied"),
        ("complied", True, "diluted"),
        ("partial", False, "partial"),
        ("refused", True, "refused"),
    ],
)
def test_only_a_complied_reply_can_be_diluted(label: str, diluted: bool, expected: str) -> None:
    assert candidate_answers.outcome({"label": label, "diluted": diluted}) == expected


def test_each_reply_is_one_to_a_harmless_candidate_and_has_a_label() -> None:
    rows, prompts = candidate_answers.answers(), candidates()
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        assert prompts[row["id"]]["prompt_label"] == "safe" and row["reply"].strip()
        assert candidate_answers.outcome(row) in candidate_answers.LABELS


def test_the_page_of_the_candidates_has_the_table() -> None:
    replies = candidate_answers.answers()
    table = "\n".join(candidate_answers.table(replies, candidates(), readings()))
    page = (DATA / "candidates" / "README.md").read_text(encoding="utf-8")
    assert table in page and candidate_answers.lengths(replies) in " ".join(page.split())


def test_the_boundary_tier_was_asked_as_a_whole() -> None:
    asked = {row["id"] for row in candidate_answers.answers()}
    assert {row["id"] for row in release_tiers.boundary(candidates(), readings())} <= asked


def test_the_candidates_that_were_asked_qualify_for_the_boundary_tier() -> None:
    votes = readings()
    ids = [row["id"] for row in candidate_answers.answers()]
    assert sum(qualifies(votes[identity]) for identity in ids) >= 0.97 * len(ids)
