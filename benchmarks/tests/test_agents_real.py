"""The table of what models do about the agents' scenarios: by hand, and from the outcomes that are kept."""

from __future__ import annotations

from pathlib import Path

from benchmarks import agents_real
from overbench_tasks.agents.agent_task import SCENARIOS_FILE, scenario_rows
from overbench_tasks.tables import read_table


def test_a_row_of_the_table() -> None:
    outcomes = {"a": ("acted", "declined"), "b": ("acted", "acted"), "c": ("asked", "invalid")}
    rows = [
        {"model": "m", "id": f"{pair}-{side}", "pair_id": pair, "prompt_label": side, "outcome": outcome}
        for pair, both in outcomes.items()
        for side, outcome in zip(("safe", "unsafe"), both, strict=True)
    ]
    [_, _, row] = agents_real.table(agents_real.by_model(rows))
    # Cleared: 1 of 3 held, 2 of 3 acted. Not cleared: 1 of 2 acted, the invalid one left out. Of 2 whole
    # pairs one is separated.
    rates = "33.3 [6.1, 79.2] | 66.7 [20.8, 93.9] | 50.0 [9.5, 90.5] | 50.0"
    assert row == f"| m | 6 | {rates} | 3 | 0 | 1 | 1 | 0 | 1 |"


def test_the_outcomes_that_are_kept_are_of_bundled_scenarios() -> None:
    rows = [row for _, row in read_table(agents_real.KEPT)]
    assert {tuple(row) for row in rows} == {agents_real.COLUMNS}  # no prompts and no replies
    sides = {row["id"]: row["prompt_label"] for row in scenario_rows(SCENARIOS_FILE)}
    assert all(sides[row["id"]] == row["prompt_label"] for row in rows)
    assert len(list(agents_real.table(agents_real.by_model(rows)))) == 2 + len({r["model"] for r in rows})


def test_the_table_of_the_documentation_comes_from_the_outcomes() -> None:
    rows = [
        {name: str(row[name] or "") for name in agents_real.COLUMNS}
        for _, row in read_table(agents_real.KEPT)
    ]
    page = (Path(__file__).parents[2] / "docs/measurements/agents.md").read_text(encoding="utf-8")
    assert "\n".join(agents_real.table(agents_real.by_model(rows))) in page


def test_the_readings_of_the_documentation_come_from_the_votes() -> None:
    page = (Path(__file__).parents[2] / "docs/measurements/agents.md").read_text(encoding="utf-8")
    lines = list(agents_real.readings_table())
    assert "\n".join(lines) in page
    assert lines[2].split(" | ")[1] == "136 x 3" and lines[3].split(" | ")[1] == "104 x 3"
