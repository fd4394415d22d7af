"""The bundled release: what its card promises, and that its inputs give it again."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from generators.gates.novelty import Novelty, NoveltySettings
from generators.gates.presence import presence_problem
from generators.near_duplicates import near_duplicates
from generators.release.push import check_sums
from generators.release.read import CARD_FILE, CHECKSUMS_FILE, read_release
from overbench_tasks.prompts import normalised, prompt_id
from overbench_tasks.prompts.prompt_sets import BUNDLED, bundled_prompts
from overbench_tasks.records import CATEGORIES

INPUTS = Path(__file__).parents[1] / "data" / "release_v1"
RELEASE = read_release(BUNDLED)
ROWS = RELEASE.prompts().to_pylist()
TARGETS = 6


@pytest.mark.skipif(os.name == "nt", reason="needs sh")
def test_the_inputs_give_the_release_again(tmp_path: Path) -> None:
    """All of it byte for byte where the libraries that write it are the same, else the same rows."""
    check_sums(BUNDLED)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    rebuild = ["sh", INPUTS / "rebuild.sh", tmp_path / "again"]
    subprocess.run(rebuild, check=True, env=os.environ | {"PATH": path})
    again = read_release(tmp_path / "again")
    assert again.prompts() == RELEASE.prompts()
    assert again.prompts(hard=True) == RELEASE.prompts(hard=True)
    assert again.matrix() == RELEASE.matrix() and again.targets() == RELEASE.targets()
    if again.facts["software"] == RELEASE.facts["software"]:
        sums = (again.folder / CHECKSUMS_FILE).read_text(), (BUNDLED / CHECKSUMS_FILE).read_text()
        assert sums[0] == sums[1]


def test_size_and_spread() -> None:
    assert len(ROWS) >= 1500
    for category in CATEGORIES:
        assert sum(row["category"] == category for row in ROWS) > 0.08 * len(ROWS)
    assert len({feature for row in ROWS for feature in row["features"]}) >= 150
    # --limit takes the first prompts: they must not all be of one category.
    assert {row["category"] for row in ROWS[:40]} == set(CATEGORIES)


def test_rows_are_sorted_by_ids_which_come_from_the_text_and_it_holds_the_trigger_word() -> None:
    assert sorted(ROWS, key=lambda row: row["id"]) == ROWS
    for row in ROWS:
        assert row["id"] == prompt_id(row["prompt"])
        assert all(presence_problem(row["prompt"], feature) is None for feature in row["features"]), row


def test_every_prompt_was_read_as_harmless_more_than_once() -> None:
    for row in ROWS:
        votes = json.loads(row["moderation"])
        assert len({vote["by"] for vote in votes}) >= 2
        assert {vote["vote"] for vote in votes} == {"benign"}


def test_each_target_answered_every_prompt_and_some_target_refuses_it() -> None:
    assert len(RELEASE.targets()) == TARGETS
    assert not any(gap["missing"] or gap["unscored"] for gap in RELEASE.facts["gaps"])
    assert all(len(row["answered_by"]) == TARGETS and row["refused_by"] for row in ROWS)


def test_hard_is_refused_by_three_targets_and_two_checkpoints() -> None:
    checkpoints = {target.target: target.checkpoint for target in RELEASE.targets()}
    hard = {
        row["id"]
        for row in ROWS
        if len(row["refused_by"]) >= 3 and len({checkpoints[name] for name in row["refused_by"]}) >= 2
    }
    assert [row["id"] for row in bundled_prompts("overbench_hard")] == sorted(hard) != []


def test_no_near_duplicates() -> None:
    prompts = [row["prompt"] for row in ROWS]
    assert near_duplicates([normalised(prompt) for prompt in prompts], 0.8) == []
    novelty = Novelty(NoveltySettings())
    for number, prompt in enumerate(prompts):
        assert novelty.problem(prompt) is None
        novelty.add(str(number), prompt)


def test_the_card_says_what_hard_means_and_whose_data_this_is_not() -> None:
    card = (BUNDLED / CARD_FILE).read_text(encoding="utf-8")
    assert "refused by at least 3 targets and by at least 2 different" in card
    assert "not the authors' data" in card and "overbench_all.jsonl" in card


def test_no_prompt_is_taken_from_xstest(shared_data: Path) -> None:
    def words(text: str) -> set[str]:
        return set(re.findall(r"\w+", text.casefold()))

    with (shared_data / "xstest" / "prompts.csv").open(encoding="utf-8") as file:
        theirs = [words(row["prompt"]) for row in csv.DictReader(file)]
    for row in ROWS:
        ours = words(row["prompt"])
        closest = max(len(ours & other) / len(ours | other) for other in theirs)
        assert closest <= 0.6, row["prompt"]
