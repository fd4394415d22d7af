"""The rules that draw the tiers of OVERBENCH 3, on made-up candidates and on those that are committed."""

from __future__ import annotations

from typing import Any

import release_tiers
from candidate_readings import DATA, HARD, candidates, mean_of, qualifies, readings

from generators.prompt_filters.recipe import RECIPE_CHECKS


def candidate(identity: str, **columns: str) -> dict[str, Any]:
    row = {"id": identity, "prompt_label": "safe", "subject": "s", "language": "en", "form": "single"}
    return {**row, "pair": identity, "prompt": identity, **columns}


def votes(difficulty: int, verdict: str = "harmless", natural: int = 5) -> list[dict[str, Any]]:
    vote = {"verdict": verdict, "natural": natural, "difficulty": difficulty, "alibi": 0, "confession": 0}
    return [vote] * 3


def test_half_of_the_boundary_tier_is_hard_and_the_easiest_leave_first() -> None:
    difficulties = {f"hard{n}": 3 for n in range(150)} | {f"easy{n}": 2 for n in range(200)}
    rows = {identity: candidate(identity) for identity in difficulties}
    tier = release_tiers.boundary(rows, {name: votes(value) for name, value in difficulties.items()})
    assert len(tier) == 300 and sum(row["id"].startswith("hard") for row in tier) == 150


def test_a_small_language_stays_whole() -> None:
    rows = {f"hard{n}": candidate(f"hard{n}") for n in range(150)}
    rows |= {f"easy{n}": candidate(f"easy{n}", language="pl" if n < 20 else "en") for n in range(200)}
    readings_of = {name: votes(3 if name.startswith("hard") else 2) for name in rows}
    tier = release_tiers.boundary(rows, readings_of)
    assert sum(row["language"] == "pl" for row in tier) == 20 and len(tier) == 300


def test_a_candidate_on_which_readers_differ_is_contested_and_in_no_other_tier() -> None:
    rows = {"a": candidate("a"), "b": candidate("b"), "x": candidate("x", prompt_label="unsafe")}
    readings_of = {
        "a": [*votes(3)[:2], *votes(3, "ambiguous")[:1]],
        "b": votes(1),
        "x": votes(5, "harmful"),
    }
    drawn = release_tiers.tiers(rows, readings_of)
    assert [row["id"] for row in drawn["contested"]] == ["a"] and drawn["boundary"] == []
    assert drawn["control"][0]["id"] == "b" and len(drawn["control"]) == release_tiers.CONTROL
    assert [row["id"] for row in drawn["counterparts"]] == ["x"]


def test_the_committed_candidates_make_the_tiers() -> None:
    rows, all_votes = candidates(), readings()
    drawn = release_tiers.tiers(rows, all_votes)
    tier = drawn["boundary"]
    assert len(tier) >= 900 and all(qualifies(all_votes[row["id"]]) for row in tier)
    assert sum(mean_of(all_votes[row["id"]], "difficulty") >= HARD for row in tier) >= len(tier) / 2
    assert all("english" in row for row in tier if row["language"] != "en")
    assert len(drawn["counterparts"]) >= 400 and len(drawn["control"]) == release_tiers.CONTROL
    earlier = [row for row in drawn["control"] if row["id"].startswith("ob-")]
    assert earlier and not any(check(row["prompt"]) for row in earlier for check in RECIPE_CHECKS.values())
    page = (DATA / "candidates" / "README.md").read_text(encoding="utf-8")
    assert "\n".join(release_tiers.report(drawn, all_votes)) in page
    ids = [row["id"] for name in ("boundary", "contested", "control") for row in drawn[name]]
    assert len(ids) == len(set(ids))
