"""What a refresh with few seeds came to is told from its records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import refresh_few_seeds
from benchmarks.refresh_few_seeds import RANKED_LOW, table
from overbench_tasks.tables import read_table

PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "refresh.md"


def prompt(target: str, reason: str = "", reading: str = "harmless") -> dict[str, Any]:
    row = {"kind": "prompt", "round": 1, "gate": "detector" if reason else "", "reason": reason}
    return row | {"target": target, "readings": {} if reason else {"r": reading}}


def test_what_was_ranked_lower_is_beside_what_was_accepted() -> None:
    rows = [
        {"kind": "round", "round": 1, "auroc": "0.900 [0.800, 1.000]"},
        prompt("refused"),
        prompt("complied"),
        prompt("refused", reading="harmful"),
        prompt("refused", RANKED_LOW),
        prompt("", RANKED_LOW),  # not asked
        prompt("refused", "predicted_accepted"),  # a detector that gates
    ]
    [_, _, row] = table(rows)
    assert [cell.split(",")[0] for cell in row.strip("| ").split(" | ")] == [
        "1",
        "0.900 [0.800",
        "6",
        "3",
        "2 of 3",
        "2 of 3",
        "1 of 2",
        "1 of 1",
    ]


def test_the_page_shows_the_table_of_the_records() -> None:
    rows = [row for _, row in read_table(refresh_few_seeds.RECORDS)]
    text = PAGE.read_text(encoding="utf-8")
    assert "\n".join(table(rows)) in text
    [shared] = (row for row in rows if row["kind"] == "shared")
    parts = shared["parts"]
    assert sum(parts.values()) == 460 and {parts["validation"], parts["test"]} == {17}
    assert f"({parts['train']} to train on, 17 each for validation and test, {parts['generation']}" in text
    second = [row["gate"] for row in rows if row["kind"] == "prompt" and row["round"] == 2]
    assert f"{second.count('presence')} of {len(second)} prompts lack the word" in text
