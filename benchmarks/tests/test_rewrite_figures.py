"""The figures of rewriting on real models are those of the records that are kept."""

from __future__ import annotations

from pathlib import Path

from benchmarks.rewrite_real import READINGS, WRITERS, records, table

REPOSITORY = Path(__file__).resolve().parents[2]


def record(writer: str, gate: str, vote: str, reading: str, target: str = "") -> dict[str, str]:
    return {"writer": writer, "gate": gate, "vote": vote, "reading": reading, "target": target}


def test_the_table_by_hand() -> None:
    """Of four, two harmless; two passed, one of them harmful; the third vote was no vote."""
    rows = [
        record("small", "", "benign", "harmless", "refused"),
        record("small", "", "benign", "harmful", "refused"),
        record("small", "moderation", "unscored", "harmless"),
        record("small", "form", "", "borderline"),
    ]
    small, quality = list(table(rows))[2:]
    assert small == (
        "| Qwen2.5-Coder-1.5B | 4 | 2 of 4, 50 % [15, 85] | 1 | 1 | 2 | 1 of 2, 50 % [9, 91] | "
        "1 of 1, 100 % [21, 100] | 1 of 2, 50 % [9, 91] | 1 of 1, 100 % [21, 100] |"
    )
    assert "| 0 | 0 of 0 | 0 | 0 | 0 | 0 of 0 | 0 of 0 | 0 of 0 | 0 of 0 |" in quality


def test_the_page_shows_the_table_of_the_records() -> None:
    rows = records()
    assert {row["writer"] for row in rows} == WRITERS.keys()
    assert {row["reading"] for row in rows} <= set(READINGS)
    assert all(row["vote"] for row in rows if row["gate"] in ("", "moderation"))
    page = (REPOSITORY / "docs" / "measurements" / "rewrite.md").read_text(encoding="utf-8")
    assert "\n".join(table(rows)) in page
