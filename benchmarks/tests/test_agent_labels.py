"""Outcomes of agents by rules and by reading: a sheet, what is kept of it, and the tables by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from table_files import write_table

from benchmarks import agent_labels
from overbench_tasks.agents.agent_task import SCENARIOS_FILE, scenario_rows
from overbench_tasks.errors import OverbenchError
from overbench_tasks.tables import read_table

SCENARIOS = list(scenario_rows(SCENARIOS_FILE))[:4]
OUTCOMES = {
    "declined": "I'm sorry, but I can't help with that.",
    "asked": "Please confirm that the owner has approved this.",
    "invalid": "",
    "blocked": "The response was blocked by the content filter.",
}


def log(folder: Path) -> Path:
    rows = [
        {
            "doc": scenario,
            "resps": [[reply]],
            "filtered_resps": [
                [json.dumps({"label": "unscored", "reason": "", "by": "x", "outcome": outcome})]
            ],
            "filter": "action",
        }
        for scenario, (outcome, reply) in zip(SCENARIOS, OUTCOMES.items(), strict=True)
    ]
    folder.mkdir(parents=True)
    file: Path = write_table(folder / "samples_overbench_agent_2026-11-25T00-00-00.jsonl", rows)
    return file


def written(file: Path, rows: list[dict[str, Any]]) -> Path:
    path: Path = write_table(file, rows)
    return path


def test_a_sheet_shows_replies_and_no_outcome_by_rules(tmp_path: Path) -> None:
    log(tmp_path / "model-a")
    rows = agent_labels.sheet([tmp_path], count=200)
    assert sorted(row["reply"] for row in rows) == sorted(list(OUTCOMES.values())[:3])  # none withheld
    assert {row["model"] for row in rows} == {"model-a"}
    assert all("outcome" not in row and row["messages"][-1]["role"] == "user" for row in rows)
    assert len(agent_labels.sheet([tmp_path], count=2)) == 2


def test_what_a_reader_says_is_kept_without_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(agent_labels, "DATA", tmp_path / "agent_labels.csv.gz")
    monkeypatch.setattr(sys, "argv", ["agent_labels.py"])
    agent_labels.main()
    assert "No labels are kept: agent_labels.csv.gz is not there." in capsys.readouterr().out
    file = log(tmp_path / "model-a")
    sheet = written(tmp_path / "sheet.jsonl", agent_labels.sheet([file], count=200))
    read = {"asked": "asked", "declined": "asked", "invalid": "invalid"}
    ids = dict(zip(OUTCOMES, (scenario["id"] for scenario in SCENARIOS), strict=True))
    votes = written(
        tmp_path / "votes.jsonl",
        [{"model": "model-a", "id": ids[rules], "outcome": outcome} for rules, outcome in read.items()],
    )
    monkeypatch.setattr(sys, "argv", ["agent_labels.py", "--add", str(sheet), str(votes)])
    agent_labels.main()
    agent_labels.main()  # the same votes again change nothing
    rows = [row for _, row in read_table(agent_labels.DATA)]
    assert len(rows) == 3 and {tuple(row) for row in rows} == {agent_labels.COLUMNS}
    assert {row["outcome_by_rules"]: row["outcome_by_reading"] for row in rows} == read
    printed = capsys.readouterr().out
    assert "| asked | 0 | 0 | 1 | 1 | 0 | 0 |" in printed
    # Of 1 asked by rules 1 is; of 2 by reading the rules found 1. Of 1 declined by rules none is.
    assert "| asked | 100.0 (20.7–100.0, n = 1) | 50.0 (9.5–90.5, n = 2) |" in printed
    assert "| declined | 0.0 (0.0–79.3, n = 1) | – |" in printed


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([{"model": "model-a", "id": "x", "outcome": "perhaps"}], "expected an 'outcome' out of acted"),
        ([{"model": "model-a", "id": "x", "outcome": "asked"}], "found .'model-a', 'x'."),
    ],
)
def test_votes_that_fit_no_sheet_are_an_error(
    tmp_path: Path, votes: list[dict[str, Any]], message: str
) -> None:
    sheet = written(tmp_path / "sheet.jsonl", agent_labels.sheet([log(tmp_path / "model-a")], count=200))
    with pytest.raises(OverbenchError, match=message):
        list(agent_labels.labelled(sheet, written(tmp_path / "votes.jsonl", votes)))


def test_a_sheet_of_no_agents_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OverbenchError, match="found none"):
        agent_labels.sheet([tmp_path], count=1)


def test_the_page_shows_the_kept_labels() -> None:
    rows = agent_labels.kept()
    assert len(rows) == 200
    tables = "\n".join((*agent_labels.confusion_table(rows), "", *agent_labels.quality_table(rows)))
    page = Path(__file__).parents[2] / "docs/measurements/agents.md"
    assert f"<!-- agent labels -->\n{tables}\n<!-- /agent labels -->" in page.read_text(encoding="utf-8")
