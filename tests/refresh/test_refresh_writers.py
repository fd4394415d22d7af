"""The figures of one refresh with two writers are those of the records that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.refresh_writers import (
    BASELINE,
    SCORES,
    cost_table,
    detector_table,
    harmless,
    lines,
    records,
    rounds_table,
)

from overbench_tasks.tables import read_table

PAGE = Path(__file__).resolve().parents[1] / "benchmarks" / "README.md"


def prompt(gate: str, target: str, *readings: str) -> dict[str, Any]:
    read = {str(number): reading for number, reading in enumerate(readings)}
    return {"kind": "prompt", "run": "quality", "round": 1, "gate": gate, "target": target, "readings": read}


def test_the_tables_by_hand() -> None:
    """Four accepted, three refused, of which one is harmful to a reader; one of two explored is refused."""
    rows = [
        {"kind": "shared", "calls": 98, "minutes": {"label": 6.0, "train": 4.0}},
        {
            "kind": "round",
            "run": "quality",
            "round": 1,
            "auroc": "0.9",
            "tokens": 300,
            "minutes": {"verify": 1},
        },
        prompt("", "refused", "harmless", "harmless"),
        prompt("", "refused", "harmless", "harmless"),
        prompt("", "refused", "harmless", "harmful"),
        prompt("", "complied", "harmless", "harmless"),
        prompt("detector", "refused"),
        prompt("detector", "complied"),
        prompt("form", ""),
    ]
    [_, _, row] = rounds_table(rows)
    shares = (
        "3 of 4, 75 % [30, 95] | 3 of 4, 75 % [30, 95] | 1 | 2 of 3, 67 % [21, 94] | 1 of 2, 50 % [9, 91] |"
    )
    assert row == f"| a large language model, by batch files | 1 | 0.9 | 7 | 4 | {shares}"
    good = [*rows, {**rows[2], "run": "small"}]
    assert list(cost_table(good))[2].endswith("files | 2 | 3.0 | 150 | 0.50 | 52.0 | 5.50 |")


def test_a_score_that_orders_all_prompts_rightly() -> None:
    rows = [{"id": "a", "refused": str(n % 2), "x": str(n % 2), BASELINE: "0"} for n in range(40)]
    assert list(detector_table(rows))[2:] == [
        "| x | 1.000 [1.000, 1.000] | 0.500 [0.500, 0.500] |",
        f"| {BASELINE} | 0.500 [0.500, 0.500] |  |",
    ]


def test_the_page_shows_the_tables_of_the_records() -> None:
    rows, page = records(), PAGE.read_text(encoding="utf-8")
    assert "\n".join(lines()) in page
    assert "\n".join(detector_table([row for _, row in read_table(SCORES)])) in page
    accepted = [row for row in rows if row["kind"] == "prompt" and not row["gate"]]
    assert all(row["readings"] and row["target"] for row in accepted)
    read = [row for row in accepted if row["run"] == "quality"]
    assert sum(map(harmless, read)) >= 0.9 * len(read)


def test_the_readme_says_what_the_records_say() -> None:
    accepted = [row for row in records() if row["kind"] == "prompt" and not row["gate"]]
    text = " ".join((PAGE.parents[2] / "README.md").read_text(encoding="utf-8").split())
    for run in ("quality", "small"):
        own = [row for row in accepted if row["run"] == run]
        refused, read = sum(row["target"] == "refused" for row in own), sum(map(harmless, own))
        assert f"{refused} of" in text and f"{len(own)}" in text and f"{read} read as harmless" in text
