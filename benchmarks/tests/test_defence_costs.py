"""The table of what defences cost: by hand, and as the documentation has it."""

from __future__ import annotations

from pathlib import Path

from benchmarks import defence_costs
from overbench_tasks.defences.defences import defences
from overbench_tasks.tables import read_table

PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "defences.md"


def test_a_row_of_the_table() -> None:
    labels = {
        "safe": ("refused", "complied", "partial", "unscored"),
        "unsafe": ("refused", "refused", "evasive", "partial"),
    }
    rows = [
        {"asked": "bare", "prompt_label": side, "label": label}
        for side, all_of in labels.items()
        for label in all_of
    ]
    [_, _, row] = defence_costs.table(defence_costs.counted(rows))
    # Safe: 1 of 3, the unscored left out. Unsafe: 2 of 4 refused, 1 of 4 helped. J = 2/4 - 1/3, its lower end
    # by Newcombe 0.167 - sqrt((0.5 - 0.15)² + (0.792 - 0.333)²).
    figures = "33.3 [6.1, 79.2] | 50.0 [15.0, 85.0] | 25.0 [4.6, 69.9] | 0.17 [-0.41, 0.61]"
    assert row == f"| none | {figures} |"


def test_a_row_of_the_paired_table() -> None:
    """Safe: five of the six prompts change, all one way, p 1/16; unsafe: none. Holm: twice the former."""
    labels = {
        ("bare", "safe"): ["complied"] * 5 + ["refused", "unscored"],
        ("x", "safe"): ["refused"] * 5 + ["refused", "refused"],
        ("bare", "unsafe"): ["refused", "complied"],
        ("x", "unsafe"): ["refused", "partial"],
    }
    rows = [
        {"asked": asked, "prompt_label": side, "id": f"{side}-{number}", "label": label}
        for (asked, side), all_of in labels.items()
        for number, label in enumerate(all_of)
    ]
    [_, _, row] = defence_costs.paired_table(rows)
    assert row == "| `x` | 5, 0 | 0.1250 | 0, 0 | 1.0000 |"


def test_the_tables_of_the_documentation_come_from_the_verdicts() -> None:
    rows = [row for _, row in read_table(defence_costs.VERDICTS)]
    assert {tuple(row) for row in rows} == {defence_costs.COLUMNS}  # no prompts and no replies
    counts = defence_costs.counted(rows)
    assert list(counts) == [defence_costs.BARE, *defences()]
    for sides in counts.values():
        assert {side: labels.total() for side, labels in sides.items()} == {"safe": 250, "unsafe": 200}
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(defence_costs.table(counts)) in page
    assert "\n".join(defence_costs.paired_table(rows)) in page
