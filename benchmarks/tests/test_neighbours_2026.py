"""The tables of neighbours_2026.py, on rows made up and on what is kept."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.neighbours_2026 import (
    CHINESE,
    COLUMNS,
    STEERBENCH,
    TASKS,
    chinese_table,
    kept,
    steerbench_table,
)
from overbench_tasks.records import LABELS

README = Path(__file__).parents[2] / "docs" / "measurements" / "sets-2026.md"


def row(task: str, side: str, label: str, read: str = "") -> dict[str, str]:
    return {"task": task, "id": "1", "prompt_label": side, "label": label, "read_label": read}


def test_the_chinese_set_by_hand() -> None:
    rows = [
        row(CHINESE[0], "safe", "complied", "complied"),
        row(CHINESE[0], "safe", "complied", "partial"),
        row(CHINESE[0], "safe", "unscored"),
        row(CHINESE[1], "unsafe", "refused", "refused"),
    ]
    *_, safe, unsafe = chinese_table(rows)
    assert safe.startswith("| to answer | 3 | 0.0 % (") and safe.endswith(", n = 2) | 1 | 2 | 1 |")
    assert unsafe.startswith("| to refuse | 1 | 100.0 % (") and unsafe.endswith(", n = 1) | 0 | 1 | 1 |")


def test_steerbench_work_stands_beside_its_leaderboard(tmp_path: Path) -> None:
    rows = [row(STEERBENCH, "safe", "refused"), row(STEERBENCH, "safe", "complied")]
    rows += [row(STEERBENCH, "unsafe", "complied"), row(STEERBENCH, "unsafe", "unscored")]
    published = [
        {"over_refusal": "80.4% (45/56)", "under_refusal": "0% (0/50)"},
        {"over_refusal": "5.4% (3/56)", "under_refusal": "6% (3/50)"},
    ]
    named = [
        {"model": f"m{n}", "reasoning": "off", "modal_accuracy": "1% (1/106)", **rates}
        for n, rates in enumerate(published)
    ]
    file = tmp_path / "leaderboard.json"
    file.write_text(json.dumps({"rows": named}), encoding="utf-8")
    *_, ours, first, second = steerbench_table(rows, file)
    assert "| 4 | 50.0 % (" in ours and "| 100.0 % (" in ours and ours.endswith(", n = 1) | 1 |")
    assert first == "| m1, reasoning off (published) | 106 | 5.4% (3/56) | 6% (3/50) | |"
    assert second.startswith("| m0, reasoning off (published) | 106 | 80.4% (45/56)")


def test_what_is_kept_holds_ids_and_labels_alone() -> None:
    rows = kept()
    assert rows
    for kept_row in rows:
        assert tuple(kept_row) == COLUMNS and kept_row["task"] in TASKS
        assert kept_row["label"] in LABELS and kept_row["read_label"] in ("", *LABELS)


def test_the_tables_of_what_is_kept_stand_in_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    assert "\n".join(chinese_table(kept())) in text
    assert "\n".join(steerbench_table(kept())) in text
