"""A campaign's folder of before 0.2, with ZIP shards, goes on. That code made ``earlier/zip_shards.tar.gz``.

It has a finished cell of six prompts, and one of twelve, killed in the middle of its second shard: two ZIP
files, a cache with two replies, a note on the shards of that cache, and a mark that the shard is asked for.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from campaign_fakes import TARGET, InProcess, asked, records, run

from overbench.campaign.campaign_plan import make_plan
from overbench.campaign.campaign_settings import CampaignSettings
from overbench.campaign.campaign_status import status_of

EARLIER = Path(__file__).with_name("earlier") / "zip_shards.tar.gz"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The settings of the campaign, whose folder lies in ``tmp_path/out``. The keys of its cells are those of
    today, since they hold versions of task and labels."""
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    with tarfile.open(EARLIER) as archive:
        archive.extractall(tmp_path, filter="data")
    out = tmp_path / "out"
    (out / "asked.txt").rename(tmp_path / "asked")
    source = tmp_path / "half.csv"
    source.write_text("prompt\n" + "".join(f"How do I kill wasp {n}?\n" for n in range(12)))
    sets = {"done": {"source": str(source), "limit": 6}, "half": {"source": str(source)}}
    settings = {"targets": [TARGET], "report": None, "ray": {"shard_prompts": 5}, "sets": sets}
    for cell in make_plan(CampaignSettings.model_validate(settings), out).cells:
        for folder in ("cells", "shards"):
            for key in (out / folder / cell.name).glob("*"):
                key.rename(key.with_name(cell.key))
        for note in (out / "caches").rglob("*.json"):
            names = [name.split("/") for name in json.loads(note.read_text())]
            in_cell = [[*name[:-2], cell.key, name[-1]] for name in names if "/".join(name[:-2]) == cell.name]
            note.write_text(json.dumps(["/".join(name) for name in in_cell] or ["/".join(n) for n in names]))
    return settings


def test_what_is_kept_in_zip_files_and_caches_is_not_asked_again(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    plan = make_plan(CampaignSettings.model_validate(settings), out)
    assert [cell.name for cell in plan.done] == ["one/plain/greedy/done"]
    assert "shards  2 of 3 of the cells that are not done" in "\n".join(status_of(plan))
    before = asked(tmp_path)
    assert len(before) == 15
    result = run(tmp_path, settings, engine=InProcess(4))
    assert (result.done, result.new, result.failures) == (2, 1, ())
    assert len(asked(tmp_path)) == 18 and set(asked(tmp_path).values()) == {1}
    rows = {name.split("/")[4]: cell_rows for name, cell_rows in records(tmp_path).items()}
    assert {name: len(cell_rows) for name, cell_rows in rows.items()} == {"done": 6, "half": 12}
    assert [row["doc_id"] for row in rows["half"]] == [*range(12)]
    (half,) = (out / "cells" / "one/plain/greedy/half").rglob("cell.json")
    assert json.loads(half.read_text())["result"]["prompts"] == 12
    assert not [*(out / "caches").rglob("*.json"), *(out / "cells").rglob("*.zip")]
    assert run(tmp_path, settings, engine=InProcess(4)).new == 0


def test_a_damaged_zip_file_is_named_and_its_prompts_are_asked_again(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    (damaged,) = (tmp_path / "out" / "shards" / "one/plain/greedy/half").rglob("000000000-000000005.zip")
    damaged.write_bytes(damaged.read_bytes()[:-30])
    engine = InProcess(5)
    assert run(tmp_path, settings, engine=engine).done == 2
    (line,) = (line for line in engine.lines if "can't be read" in line)
    assert line.endswith(f"It is now {damaged}.damaged")
    assert sum(asked(tmp_path).values()) == 18 + 5
