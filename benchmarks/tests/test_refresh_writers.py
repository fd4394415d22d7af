"""The figures of one refresh with two writers are those of the records that are kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import refresh_writers
from benchmarks.refresh_writers import (
    BASELINE,
    SCORES,
    SECOND_ROUND,
    cost_table,
    detector_table,
    harmless,
    keep,
    lines,
    readers_table,
    records,
    rounds_table,
)
from overbench_tasks.tables import read_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "measurements" / "refresh.md"


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


def test_two_readers_by_hand() -> None:
    """3 of 4 alike; by chance (2 * 1 + 1 * 1 + 1 * 2) / 16, so kappa is (3/4 - 5/16) / (11/16) = 7/11."""
    words = [
        ("harmless", "harmless"),
        ("harmless", "harmful"),
        ("harmful", "harmful"),
        ("borderline", "borderline"),
    ]
    [_, _, row, both] = readers_table([*(prompt("", "refused", *pair) for pair in words), prompt("form", "")])
    shares = "2 of 4, 50 % [15, 85] | 1 of 4, 25 % [5, 70] | 1 | 2 | 3 of 4, 75 % [30, 95] | 0.64 |"
    assert row == f"| a large language model, by batch files | 1 | {shares}"
    assert both == f"| both | both | {shares}"


def test_one_more_reader_changes_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, sheet = records(), tmp_path / "ben.csv"
    monkeypatch.setattr(refresh_writers, "RECORDS", tmp_path / "records.jsonl.gz")
    refresh_writers.write_sheet(rows, sheet)
    sheet.write_text(sheet.read_text(encoding="utf-8").replace(",\n", ",borderline\n"), encoding="utf-8")
    keep(rows, [sheet])
    for old, new in zip(rows, records(), strict=True):
        accepted = old["kind"] == "prompt" and not old["gate"]
        assert new == (old | {"readings": old["readings"] | {"ben": "borderline"}} if accepted else old)


def test_a_score_that_orders_all_prompts_rightly() -> None:
    row = {"id": "a", BASELINE: "0"}
    rows = [
        row | {"refused": str(n % 2), "refused_again": str(int(n % 4 == 1)), "x": str(n % 2)}
        for n in range(40)
    ]
    head, _, *table = detector_table(rows)
    assert "40 test prompts, 20 refused" in head and "asked again: 10 refused, 10 turned" in head
    assert table == [
        f"| {BASELINE} | 0.500 [0.500, 0.500] |  | 0.500 |",
        "| x | 1.000 [1.000, 1.000] | 0.500 [0.500, 0.500] | 0.833 |",
    ]


def test_the_page_shows_the_tables_of_the_records() -> None:
    rows, page = records(), PAGE.read_text(encoding="utf-8")
    assert "\n".join(lines()) in page
    scored = [row for _, row in read_table(SCORES)]
    scores = list(detector_table(scored))
    assert "\n".join(scores) in page
    [greeted] = (name for name in scored[0] if "Hi!" in name)
    turned = sum(float(row[greeted]) != float(row["refused"]) for row in scored) / len(scored)
    assert f"turned for {100 * turned:.0f} % of them" in page
    for round_row in (row for row in rows if row["kind"] == "round" and row["round"] == 2):
        start = f"| {SECOND_ROUND[round_row['run']]} | {round_row['auroc'].split()[0]} ["
        assert any(line.startswith(start) for line in scores)
    accepted = [row for row in rows if row["kind"] == "prompt" and not row["gate"]]
    assert all(len(row["readings"]) == 2 and row["target"] for row in accepted)
    differ = [set(row["readings"].values()) for row in accepted if len(set(row["readings"].values())) > 1]
    once = sum("harmless" in words for words in differ)
    text = " ".join(page.split())
    [shared] = (row for row in rows if row["kind"] == "shared")
    parts = shared["parts"]
    assert f"({shared['calls']:,} prompts, of which it refuses {shared['refused']:,}; split by" in text
    assert f"{parts['train']:,} to train on, {parts['validation']} validation, {parts['test']} test" in text
    assert f"{parts['generation']} to generate from" in text
    assert f"took {shared['minutes']['attribute']:.0f} minutes to attribute" in text
    assert f"of the {len(differ)} on which the readers differ, {once} are harmless to one of them" in text
    assert f"of the other {len(differ) - once} are" in text
    read = [row for row in accepted if row["run"] == "quality"]
    assert sum(map(harmless, read)) >= 0.9 * len(read)


def test_the_page_says_what_the_records_say() -> None:
    accepted = [row for row in records() if row["kind"] == "prompt" and not row["gate"]]
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    for run in ("quality", "small"):
        own = [row for row in accepted if row["run"] == run]
        refused, read = sum(row["target"] == "refused" for row in own), sum(map(harmless, own))
        pattern = (
            rf"refused {refused} of (the )?{len(own)}\b[^.]*?, and {read} (of them )?were judged harmless"
        )
        assert re.search(pattern, text)
