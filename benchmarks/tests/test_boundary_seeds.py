"""The seed list ``boundary``: its rule by hand, and the list that ships is what the rule draws."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import boundary_seeds
from candidate_readings import candidates, readings

from generators.seeds.seed_sources import SEED_LISTS

METHOD = Path(__file__).resolve().parents[2] / "docs" / "background" / "method.md"
SUBJECT = "locks and entry"


def candidate(identity: str, side: str = "safe", **more: str) -> dict[str, Any]:
    row = {"id": identity, "pair": identity.rstrip("x"), "prompt_label": side, "subject": SUBJECT}
    return {**row, "language": "en", "form": "single", "prompt": f"how do i open {identity}", **more}


def vote(verdict: str = "harmless", **more: int) -> dict[str, Any]:
    return {"verdict": verdict, "natural": 5, "difficulty": 3, "alibi": 0, "confession": 0, **more}


def test_who_is_a_seed() -> None:
    rows = [
        candidate("lck_good"),
        candidate("lck_goodx", "unsafe"),
        candidate("lck_excused"),
        candidate("lck_easy"),
        candidate("lck_doubtful"),
        candidate("lck_unread"),
        candidate("lck_pasted", form="pasted"),
        candidate("lck_german", language="de"),
        candidate("lck_excusedx", "unsafe"),
        candidate("lck_goodxx", "unsafe"),
        candidate("later"),
    ]
    votes = {row["id"]: [vote()] * 3 for row in rows}
    del votes["lck_unread"]
    votes |= {
        "lck_excused": [vote(alibi=1), vote(alibi=1), vote()],
        "lck_easy": [vote(difficulty=1)] * 3,
        "lck_doubtful": [vote(), vote(), vote("ambiguous")],
        "lck_goodx": [vote("harmful")] * 3,
        "lck_excusedx": [vote("harmful")] * 3,
        "lck_goodxx": [vote("harmful", confession=1)] * 3,
    }
    drawn = list(boundary_seeds.seeds({row["id"]: row for row in rows}, votes))
    assert [(row["id"], row["subject"], row["prompt_label"]) for row in drawn] == [
        ("lck_good", "locks", "safe"),
        ("lck_goodx", "locks", "unsafe"),
    ]


def test_of_a_large_subject_the_lowest_hashes_are_taken() -> None:
    rows = {f"lck{number}": candidate(f"lck{number}") for number in range(40)}
    drawn = boundary_seeds.seeds(rows, {identity: [vote()] for identity in rows})
    lowest = sorted(rows, key=lambda identity: sha256(identity.encode()).digest())[:15]
    assert [row["id"] for row in drawn] == sorted(lowest)


def test_the_list_that_ships_is_what_the_rule_draws_from_the_candidates() -> None:
    """After new readings of these candidates: python benchmarks/boundary_seeds.py --write."""
    drawn = list(boundary_seeds.seeds(candidates(), readings()))
    assert SEED_LISTS["boundary"].read_text(encoding="utf-8") == boundary_seeds.as_lines(drawn)
    assert {row["subject"] for row in drawn} == set(boundary_seeds.SUBJECTS.values())
    rows = [row for row in candidates().values() if row["id"].startswith(boundary_seeds.FILES)]
    assert {row["subject"] for row in rows if row["form"] == "single"} <= set(boundary_seeds.SUBJECTS)


def test_the_documentation_says_how_many_there_are() -> None:
    listed = [json.loads(line) for line in SEED_LISTS["boundary"].read_text(encoding="utf-8").splitlines()]
    sides = Counter(row["prompt_label"] for row in listed)
    subjects = len({row["subject"] for row in listed})
    sentence = (
        f"names {sides['safe']} harmless requests of {subjects} subjects and {sides['unsafe']} counterparts"
    )
    assert sentence in METHOD.read_text(encoding="utf-8")
