"""The bundled release 3.0: its inputs give it again, its counts are those asked for, its pages agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import candidate_answers
import candidate_keys
import large_model
import motives
import pytest
import release_logs
import release_rates
import release_tiers
import reread
import tier_readings
from candidate_readings import DATA, candidates, readings

from overbench.release.push import check_sums
from overbench_tasks.outcomes.release_files import CARD_FILE, CHECKSUMS_FILE, read_release
from overbench_tasks.prompts.sources import BUNDLED
from overbench_tasks.tables import read_table

RELEASE = read_release(BUNDLED)
ROWS = RELEASE.prompts().to_pylist()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "measurements" / "release-3.md"


def on_the_page(name: str, lines: Iterable[str]) -> bool:
    block = "\n".join(("<!-- " + name + " -->", *lines, "<!-- /" + name + " -->"))
    return block in PAGE.read_text(encoding="utf-8")


def test_the_files_are_those_of_the_checksums() -> None:
    check_sums(BUNDLED)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs sh")
def test_the_inputs_give_the_release_again(tmp_path: Path) -> None:
    """All of it byte for byte where the libraries that write it are the same, else the same rows."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    rebuild = ["sh", DATA / "rebuild.sh", tmp_path / "again"]
    subprocess.run(rebuild, check=True, env=os.environ | {"PATH": path})
    again = read_release(tmp_path / "again")
    assert again.prompts() == RELEASE.prompts() and again.unsafe_prompts() == RELEASE.unsafe_prompts()
    assert again.matrix() == RELEASE.matrix() and again.targets() == RELEASE.targets()
    if again.facts["software"] == RELEASE.facts["software"]:
        sums = (again.folder / CHECKSUMS_FILE).read_text(), (BUNDLED / CHECKSUMS_FILE).read_text()
        assert sums[0] == sums[1]


def test_the_counts_that_were_asked_for() -> None:
    tiers = Counter(row["tier"] for row in ROWS)
    boundary = [row for row in ROWS if row["tier"] == "boundary"]
    unsafe, contested = RELEASE.unsafe_prompts(), RELEASE.contested_prompts()
    assert tiers["boundary"] >= 900 and tiers["control"] == 800
    assert unsafe is not None and unsafe.num_rows >= 400
    assert contested is not None and contested.num_rows > 0
    fields = Counter(row["field"] for row in boundary)
    assert len(fields) >= 24 and min(fields.values()) >= 12
    assert max(fields.values()) <= 0.12 * len(boundary)
    forms, languages = (Counter(row[name] for row in boundary) for name in ("form", "language"))
    assert forms["pasted"] >= 120 and forms["turns"] >= 120 and forms["system"] >= 100
    assert len(languages) == 13 and min(languages.values()) >= 20
    assert all(row["english"] for row in boundary if row["language"] != "en")
    assert all(row["needs"] for row in boundary) and sum(bool(row["answer_key"]) for row in boundary) >= 500


def test_rows_hold_what_the_tiers_hold() -> None:
    drawn = release_tiers.prompt_rows(release_tiers.tiers(candidates(), readings()), readings())
    texts = {row["prompt"]: row for row in ROWS}
    for name in ("boundary", "control"):
        assert {row["prompt"] for row in drawn[name]} == {
            row["prompt"] for row in ROWS if row["tier"] == name
        }
    for row in drawn["boundary"]:
        assert texts[row["prompt"]]["needs"] == row["needs"]
        assert texts[row["prompt"]]["english"] == row.get("english")


def test_the_page_on_the_data_has_the_counts() -> None:
    tiers = Counter(row["tier"] for row in ROWS)
    unsafe = RELEASE.unsafe_prompts()
    assert unsafe is not None
    keyed = sum(bool(row["answer_key"]) for row in ROWS if row["tier"] == "boundary")
    pairs = RELEASE.facts["counts"]["pairs"]
    text = " ".join((PAGE.parents[1] / "background" / "data.md").read_text(encoding="utf-8").split())
    assert (
        f"harmless requests | {len(ROWS):,} |" in text and f"decline them | {tiers['boundary']:,} |" in text
    )
    assert f"{pairs} of them beside a harmless half" in text and f"| {unsafe.num_rows} |" in text
    assert f"{keyed} have an `answer_key`" in text and f"{unsafe.num_rows - pairs} stand alone" in text
    answers = candidate_answers.answers()
    longer, of_all = re.findall(r"\d+", candidate_answers.lengths(answers))[:2]
    for said in (PAGE.read_text(encoding="utf-8"), (BUNDLED / CARD_FILE).read_text(encoding="utf-8")):
        assert f"{longer} of {int(of_all):,} replies" in " ".join(said.split())


def test_the_slowest_checkpoint_was_asked_the_drawn_sample_with_a_cautious_prompt() -> None:
    rows = release_tiers.prompt_rows(release_tiers.tiers(candidates(), readings()), readings())
    [log] = (DATA / "logs" / "qwen2.5-coder-1.5b-cautious").glob("samples_*.jsonl.gz")
    asked = {row["doc"]["id"] for _, row in read_table(log)}
    assert asked == {row["id"] for row in release_tiers.sample(rows)}


def test_sentences_of_card_and_page_have_the_figures_of_the_scripts() -> None:
    pages = [" ".join(file.read_text(encoding="utf-8").split()) for file in (PAGE, BUNDLED / CARD_FILE)]
    confessing, _ = motives.report(motives.motives(), readings())
    count, malice, circumstance = re.findall(r"\d+", confessing)[:3]
    assert f"circumstance {circumstance}" in confessing
    assert f"in {circumstance} of {count} a circumstance" in pages[0]
    assert f"harm in {count}." in pages[1] and f"in {circumstance} both find" in pages[1]
    assert f"in {malice} of the {count}" in pages[0] and f"in {malice} a malice" in pages[1]
    rounds = [row for row in release_tiers.boundary(candidates(), readings()) if row.get("round")]
    assert f"but {len(rounds)} of the boundary tier were written after" in pages[1]
    rows = candidate_answers.answers()
    failures = [row for row in rows if candidate_answers.outcome(row) != "complied"]
    subjects = [
        line.rpartition(": ")[2].partition(" ")[0]
        for line in candidate_answers.by_subject(rows, candidates())
    ]
    assert f"Of the {len(failures)} failures {subjects[0]} are of dark fiction, {subjects[1]} of" in pages[0]


def test_no_hard_set_is_published_and_the_card_says_why() -> None:
    assert RELEASE.prompts(hard=True).num_rows == 0
    assert "`overbench_hard` is empty" in (BUNDLED / CARD_FILE).read_text(encoding="utf-8")


def test_the_hard_set_would_have_fewer_than_150_prompts() -> None:
    """Not answered in full by the large model and by a checkpoint of another family, both asked bare."""
    bare = {target.target for target in RELEASE.targets() if not target.system_instruction}
    ids = {row["prompt"]: row["id"] for row in ROWS}
    prompts = candidates()
    large = {
        ids.get(prompts[row["id"]]["prompt"])
        for row in candidate_answers.answers()
        if candidate_answers.outcome(row) != "complied"
    }
    others = {
        row["id"]
        for row in RELEASE.matrix().to_pylist()
        if row["target"] in bare - {candidate_answers.MODEL} and row["label"] not in ("complied", "unscored")
    }
    assert 0 < len(large & others) < 150


def test_the_card_has_the_tables_of_the_scripts() -> None:
    card = (BUNDLED / CARD_FILE).read_text(encoding="utf-8")
    tier = {row["id"] for row in release_tiers.tiers(candidates(), readings())["boundary"]}
    boundary = [row for row in candidate_answers.answers() if row["id"] in tier]
    sets = large_model.replies("large_model_sets")
    assert "\n".join(large_model.table(boundary, sets)) in card
    assert "Thirty of the weakest pairs" in card and card.count("\n1. ") == 1 and "\n30. " in card


def test_the_page_has_the_tables_of_the_scripts() -> None:
    votes, of_set = readings(), tier_readings.votes()
    lines = [*tier_readings.table(of_set), "", *tier_readings.told_apart(of_set)]
    assert on_the_page("readings 3", [*lines, tier_readings.agreement(of_set)])
    again = reread.rereadings()
    assert on_the_page("reread", ["```", *reread.report(again, votes), "```"])
    assert on_the_page("motives", ["```", *motives.report(motives.motives(), votes), "```"])
    answers = candidate_answers.answers()
    tier = {row["id"] for row in release_tiers.tiers(candidates(), votes)["boundary"]}
    sets, later = (large_model.replies(f"large_model_{name}") for name in ("sets", "again"))
    table = large_model.table([row for row in answers if row["id"] in tier], sets)
    assert on_the_page("large model", [*table, "", "```", *large_model.asked_again(answers, later), "```"])
    assert on_the_page("rounds", candidate_answers.table(answers, candidates(), votes))
    keys = candidate_keys.table(candidate_keys.all_answers(), candidates())
    assert on_the_page("keys", [*keys, "", candidate_keys.on_refusals(candidates())])
    assert on_the_page("rates 3", release_rates.table(RELEASE))


def test_a_trimmed_log_has_neither_addresses_nor_machine() -> None:
    results = {
        "configs": {
            "overbench": {
                "task": "overbench",
                "generation_kwargs": {"max_gen_toks": 8},
                "filter_list": [],
                "metadata": {"version": 3.0, "overbench_source": "/home/somebody/prompts.jsonl"},
            }
        },
        "config": {
            "model": "local-chat-completions",
            "model_args": {"model": "m", "base_url": "http://10.0.0.1:1"},
            "gen_kwargs": {},
        },
        "pretty_env_info": "a machine",
    }
    text = str(release_logs.trimmed_results(results))
    assert "prompts.jsonl" in text
    assert not any(word in text for word in ("somebody", "10.0.0.1", "machine"))
    row = {"doc": {"id": "a", "prompt": "p", "needs": ["n"]}, "doc_id": 0, "resps": [["r"]], "doc_hash": "h"}
    row |= {"filtered_resps": ["{}"], "filter": "rules"}
    assert release_logs.trimmed_row(row)["doc"] == {"id": "a", "prompt": "p"}
    assert "doc_hash" not in release_logs.trimmed_row(row)
