"""Runs of version 0.1 are read, and go on: one that ended, and the same killed in the middle of round 2.

``tests/data/made_by_0.1`` holds them as that version left them, the SQLite files as SQL: 90 seeds, two
rounds of eight requests, models scripted as here, adversary and judge asked over HTTP.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from fault_server import fault_server
from refresh_fakes import FakeTarget, ScriptedRun
from test_refresh_faults import rows, says

from conftest import overbench
from generators.refresh.loop import refresh
from generators.refresh.run import settings_of
from generators.refresh.status import attributed_prompts, status_lines
from generators.refresh.store import Store
from overbench_tasks.prompts.refreshed import ACCEPTED_NAME
from overbench_tasks.refusal import RULES_VERSION

MADE = Path(__file__).parents[1] / "data" / "made_by_0.1"
PORT = 48765  # part of each request's key, and so fixed
ASKED_IN_ALL = 51


def earlier_run(name: str, folder: Path) -> Path:
    """A copy of a run, its SQLite files made again."""
    shutil.copytree(MADE / name, folder / name)
    for dump in (folder / name).glob("*.sql"):
        connection = sqlite3.connect(dump.with_suffix(".sqlite"))
        connection.executescript(dump.read_text(encoding="utf-8"))
        connection.close()
        dump.unlink()
    return folder / name


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    return earlier_run("finished_run", tmp_path)


def test_its_counts_reasons_detectors_and_features_are_shown(finished: Path) -> None:
    text = "\n".join(status_lines(finished))
    counts = ("seeds: train 61", "round 1, verify: accepted 11", "round 2, verify: accepted 11")
    for part in (*counts, "12  detector: not_among_the_likeliest", "round 3: AUROC 0.9", "kill 10"):
        assert part in text
    assert len(attributed_prompts(finished)) > 10


def test_its_settings_have_the_names_of_today_and_the_form_of_then(finished: Path) -> None:
    settings = settings_of(finished)
    assert (settings.rounds.batch, settings.rounds.feature_cap) == (3, 12)
    assert (settings.adversary.form, settings.adversary.seed_chars) == ("opening", 600)
    assert settings.rounds.weak_detector == "gate"
    assert "only ranks" not in "\n".join(status_lines(finished))


def test_its_prompts_go_into_a_release(finished: Path) -> None:
    release = finished.parent / "release"
    overbench("aggregate", finished, "--out", release, "--near_duplicates", 1, "--min_rejections", 1)
    about = json.loads((release / "release.json").read_text())
    assert about["labelled_by"] == "rules 1.2"
    assert [gap["target"] for gap in about["gaps"]] == ["org/fake"]
    assert (about["counts"]["read"], about["counts"]["refused"]) == (22, 20)


def test_the_killed_one_goes_on_to_the_same_end_and_asks_nothing_again(
    tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{PORT}/v1")
    killed, wanted = earlier_run("killed_run", tmp_path), rows(finished)
    answered = {row[0] for row in rows(killed)["answers"]}
    with sqlite3.connect(killed / "adversary.sqlite") as connection:
        paid = connection.execute("SELECT COUNT(*) FROM answers").fetchone()[0]
    target = FakeTarget()
    with fault_server(says, port=PORT) as server, Store(killed) as store:
        refresh(ScriptedRun(settings_of(killed), store, target=target))
    assert len(server.asked) == len(set(server.asked)) == ASKED_IN_ALL - paid > 0
    assert len(target.asked) == len(wanted["answers"]) - len(answered) > 0
    tables = rows(killed)
    # Today's rules have labelled every answer anew; the labels of then stay beside theirs.
    labels = {
        name: [row[:3] + row[4:] for row in tables["labels"] if row[3] == name]
        for name in ("rules 1.2", f"rules {RULES_VERSION}")
    }
    assert labels[f"rules {RULES_VERSION}"] == [row[:3] + row[4:] for row in wanted["labels"]]
    assert set(labels["rules 1.2"]) < set(labels[f"rules {RULES_VERSION}"])
    assert {**tables, "labels": wanted["labels"]} == wanted
    exported = [json.loads(line) for line in (killed / "data" / ACCEPTED_NAME).read_text().splitlines()]
    assert len(exported) == 22
