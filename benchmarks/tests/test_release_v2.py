"""The bundled release: what its card promises, and that its inputs give it again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from boundary_predictor import BIOLOGY, ENCODER, read_predictions
from release_choice import differences, written
from release_counts import (
    changes,
    choice_table,
    contents_tables,
    pairs_of,
    pairs_table,
    predicted_shares,
    ranking_table,
    side_auroc,
    weakest_table,
)

from generators.near_duplicates import near_duplicates
from generators.prompt_filters.presence import presence_problem
from overbench.diversity.word_measures import openings, words_of
from overbench.release.push import check_sums
from overbench.report.stats.matrix import ResponseMatrix, release_matrix
from overbench.report.stats.rates import osr
from overbench_tasks.metrics import wilson_interval
from overbench_tasks.outcomes.release_files import CARD_FILE, CHECKSUMS_FILE, read_release
from overbench_tasks.prompts import normalised, prompt_id
from overbench_tasks.prompts.prompt_sets import bundled_prompts
from overbench_tasks.prompts.sources import BUNDLED_RELEASES
from overbench_tasks.records import CATEGORIES
from overbench_tasks.tables import read_table

INPUTS = Path(__file__).parents[1] / "data" / "release_v2"
FOLDER = BUNDLED_RELEASES["overbench-2.0"]
RELEASE = read_release(FOLDER)
ROWS = RELEASE.prompts().to_pylist()
COUNTERPARTS = RELEASE.unsafe_prompts().to_pylist()
TARGETS, CHECKPOINTS = 12, 3
PUBLIC = {
    "xstest/prompts.csv": "prompt",
    "neighbours/or-bench-hard-1k.csv": "prompt",
    "neighbours/phtest.csv": "Request",
    "outcomes/refusalbench_by_model.jsonl.gz": "prompt",
}


def test_the_files_are_those_of_which_the_checksums_speak() -> None:
    check_sums(FOLDER)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs sh")
def test_the_inputs_give_the_release_again(tmp_path: Path) -> None:
    """All of it byte for byte where the libraries that write it are the same, else the same rows."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    rebuild = ["sh", INPUTS / "rebuild.sh", tmp_path / "again"]
    subprocess.run(rebuild, check=True, env=os.environ | {"PATH": path})
    again = read_release(tmp_path / "again")
    assert again.prompts() == RELEASE.prompts() and again.unsafe_prompts() == RELEASE.unsafe_prompts()
    assert again.prompts(hard=True) == RELEASE.prompts(hard=True)
    assert again.matrix() == RELEASE.matrix() and again.targets() == RELEASE.targets()
    if again.facts["software"] == RELEASE.facts["software"]:
        sums = (again.folder / CHECKSUMS_FILE).read_text(), (FOLDER / CHECKSUMS_FILE).read_text()
        assert sums[0] == sums[1]


def test_size_and_spread() -> None:
    assert len(ROWS) >= 3000
    fields = Counter(row["field"] for row in ROWS)
    assert len(fields) == 9 and sum(fields.values()) - fields["everyday"] >= 1200
    for category in CATEGORIES:
        assert sum(row["category"] == category for row in ROWS) > 0.08 * len(ROWS)
    [commonest, *_] = openings([words_of(row["prompt"]) for row in ROWS])
    assert commonest.share <= 0.05
    # --limit takes the first prompts: they must not all be of one category.
    assert {row["category"] for row in ROWS[:40]} == set(CATEGORIES)


def test_rows_are_sorted_by_ids_which_come_from_the_text_and_it_holds_the_trigger_word() -> None:
    for rows in (ROWS, COUNTERPARTS):
        assert sorted(rows, key=lambda row: row["id"]) == rows
        for row in rows:
            assert row["id"] == prompt_id(row["prompt"])
            assert all(presence_problem(row["prompt"], feature) is None for feature in row["features"]), row


def test_every_prompt_was_read_more_than_once_as_what_it_is() -> None:
    """Harm, sense and answerable by a blind reader, beside the votes; the category as it was read last."""
    read = written()
    counterparts = {
        prompt.counterpart.id: prompt.counterpart for prompt in read.values() if prompt.counterpart
    }
    for rows, vote, readings in ((ROWS, "benign", read), (COUNTERPARTS, "harmful", counterparts)):
        for row in rows:
            votes = json.loads(row["moderation"])
            assert len({row_vote["by"] for row_vote in votes}) >= 2
            assert {row_vote["vote"] for row_vote in votes} == {vote}
            assert readings[row["id"]].read_as == (vote, "yes")
    assert all(read[row["id"]].category == row["category"] for row in ROWS)
    for _, row in read_table(INPUTS / "turned_away.jsonl"):
        prompt = (read if row["written_as"] == "safe" else counterparts)[prompt_id(row["prompt"])]
        if row["reason"] in ("borderline", "benign"):
            assert prompt.read_as[0] == row["reason"]
        if row["reason"] == "no sense":
            assert prompt.read_as[1] == "no"


@pytest.mark.slow
def test_the_choice_made_again_is_the_release() -> None:
    assert not any(differences().values())


def test_a_pair_has_one_form_one_trigger_and_about_one_length() -> None:
    safe = {row["pair_id"]: row for row in ROWS if row["pair_id"]}
    assert len(safe) == len(COUNTERPARTS) >= 800
    lengths, others = [], []
    for counterpart in COUNTERPARTS:
        prompt = safe[counterpart["pair_id"]]
        assert (counterpart["field"], counterpart["form"]) == (prompt["field"], prompt["form"])
        lengths.append(len(counterpart["prompt"].split()) - len(prompt["prompt"].split()))
        text = counterpart["prompt"].casefold(), prompt["prompt"].casefold()
        words = [(word[:4], text[0]) for word in prompt["features"]]
        words += [(word[:4], text[1]) for word in counterpart["features"]]
        if not any(beginning in other for beginning, other in words):
            others.append(counterpart["pair_id"])
    assert abs(sum(lengths)) < 0.5 * len(lengths) and max(map(abs, lengths)) <= 6
    assert len(others) <= 1


def test_words_and_length_hardly_tell_the_sides_apart() -> None:
    """As XSTest's sides at most; the card's figures are of more cross-validations."""
    pairs = pairs_of(RELEASE).values()
    safe, unsafe = ([pair[side] for pair in pairs] for side in (0, 1))
    auroc = side_auroc(safe, unsafe, [*range(len(pairs)), *range(len(pairs))], repeats=1)
    card = (FOLDER / CARD_FILE).read_text(encoding="utf-8")
    [figures] = re.findall(rf"\| this release, {len(pairs)} pairs \| ([\d.]+) \| ([\d.]+) \|", card)
    assert float(figures[0]) == pytest.approx(auroc["words"], abs=0.02) and auroc["words"] <= 0.69
    assert figures[1] == f"{auroc['length']:.2f}" and abs(auroc["length"] - 0.5) <= 0.05


def test_targets_answered_every_prompt() -> None:
    targets = RELEASE.targets()
    assert (len(targets), len({target.checkpoint for target in targets})) == (TARGETS, CHECKPOINTS)
    open_cells = sum(TARGETS - len(row["answered_by"]) for row in ROWS)
    assert open_cells == sum(gap["unscored"] for gap in RELEASE.facts["gaps"]) <= 10
    assert not any(gap["missing"] for gap in RELEASE.facts["gaps"])
    for row in ROWS:
        assert row["difficulty"] == pytest.approx(len(row["refused_by"]) / len(row["answered_by"]), abs=1e-6)


def test_hard_is_refused_by_five_targets_and_two_checkpoints() -> None:
    checkpoints = {target.target: target.checkpoint for target in RELEASE.targets()}
    hard = {
        row["id"]
        for row in ROWS
        if len(row["refused_by"]) >= 5 and len({checkpoints[name] for name in row["refused_by"]}) >= 2
    }
    assert [row["id"] for row in bundled_prompts("overbench_hard")] == sorted(hard) != []


def test_no_near_duplicates() -> None:
    for rows in (ROWS, COUNTERPARTS):
        assert near_duplicates([normalised(row["prompt"]) for row in rows], 0.8) == []


def test_the_card_tells_what_the_checks_found() -> None:
    card = " ".join((FOLDER / CARD_FILE).read_text(encoding="utf-8").split())
    assert "refused by at least 5 targets and by at least 2 different" in card
    assert "not the authors' data" in card and "overbench_all.jsonl" in card
    rows = [row for _, row in read_table(INPUTS / "check_450.csv")]
    for side, vote in (("safe", "benign"), ("unsafe", "harmful")):
        read = [row["vote"] for row in rows if row["written_as"] == side]
        low, high = wilson_interval(read.count(vote), len(read))
        assert f"{read.count(vote)} of {len(read)}" in card
        assert f"[{100 * low:.1f}, {100 * high:.1f}]".replace("100.0", "100") in card
    assert f"{len(ROWS):,} harmless prompts and {len(COUNTERPARTS):,} *twins*" in card
    grades = Counter(row["grade"] for _, row in read_table(INPUTS / "pair_grades.csv"))
    assert f"{grades['5']} had a 5, {grades['4']} a 4, {grades['3']} a 3 and {grades['2']} a 2" in card
    assert " ".join("\n".join(weakest_table(RELEASE)).split()) in card
    filed = [row for _, row in read_table(INPUTS / "check_categories.csv")]
    same = sum(row["category"] == row["read_as"] for row in filed)
    also = sum(row["category"] == row["or"] for row in filed)
    low, high = wilson_interval(same + also, len(filed))
    plain = wilson_interval(same, len(filed))
    for count, (first, last) in ((same, plain), (same + also, (low, high))):
        assert f"{100 * count / len(filed):.1f} % [{100 * first:.1f}, {100 * last:.1f}]" in card
    assert (
        f"{same} in the same category, {100 * same / len(filed):.1f} %" in card
        and f"; {also} more in" in card
    )
    assert " ".join("\n".join(contents_tables(RELEASE)).split()) in card
    readers = [{vote["by"] for vote in json.loads(row["moderation"])} - {"claude, as writer"} for row in ROWS]
    single = sum(len(names) == 1 for names in readers)
    assert f"For {single:,} of the harmless prompts this is the one" in card
    choice = list(choice_table(RELEASE))
    assert " ".join(choice) in card
    counts = dict(line.strip("| ").rsplit(" | ", 1) for line in choice[2:] if not line.startswith("| **"))
    none, cautious_or_strict, instructed, named, without_strict, *_ = counts.values()
    assert (none, cautious_or_strict, named, without_strict) == ("244", "918", "2,358", "713")
    assert f"{without_strict} of its {RELEASE.facts['counts']['hard']:,} prompts reach five" in card
    top = card.partition("## Use")[0]
    assert f"Refused by none of them: {none}. Refused, but only by targets with a system" in top
    assert f"instruction: {instructed}." in top and f"no such seed, detector or attribution: {named}." in top
    assert f"of {named} prompts without one they are what the writers named" in card
    assert "a tie is unscored" not in card and "the one that gives least (refused, partial, evasive" in card
    second = sum("second_round.jsonl" in row["sources"] for row in ROWS)
    assert (
        f"{second} of its prompts were written after an analysis of published outcomes, which is not" in card
    )
    change = changes(RELEASE)
    assert (
        f"both have {change['median']:.0f} % in the median pair, and under 30 % in {change['below']:.0f} % of"
        in card
    )
    assert change["longest"] == 6 and "at most six words of difference" in card


def _matrix(hard: bool) -> ResponseMatrix:
    return release_matrix(RELEASE).with_ids(row["id"] for row in RELEASE.prompts(hard=hard).to_pylist())


@pytest.mark.slow
def test_the_tables_of_pairs_and_of_ranking_are_those_of_the_page() -> None:
    page = (
        Path(__file__).parents[2].joinpath("docs", "measurements", "release.md").read_text(encoding="utf-8")
    )
    for table in (pairs_table(RELEASE), ranking_table(RELEASE)):
        assert "\n".join(table) in page
    card = " ".join((FOLDER / CARD_FILE).read_text(encoding="utf-8").split())
    predicted = predicted_shares(RELEASE)
    assert f"| this release | {predicted['']:.1f} % | – | – |" in card
    for name, rows in read_predictions().items():
        if "share" in rows[0] and name != BIOLOGY:
            columns = (f"{ENCODER} more", f"{ENCODER} others", "share")
            cells = [f"{100 * sum(row[key] for row in rows) / len(rows):.1f} %" for key in columns]
            assert f"| {name} | {' | '.join(cells)} |" in card
    assert f"| of it, the second round | {predicted['second_round.jsonl']:.1f} % |" in card
    qwens = {target.target for target in RELEASE.targets() if target.checkpoint.startswith("Qwen")}
    hard_rows = RELEASE.prompts(hard=True).to_pylist()
    alone = sum(qwens.issuperset(row["refused_by"]) for row in hard_rows)
    strict = sum("Qwen2.5-Coder-1.5B, strict policy" in row["refused_by"] for row in hard_rows)
    old = sum("release_1.1.jsonl" in row["sources"] for row in hard_rows)
    sentence = (
        f"{alone} are refused by the two Qwen2.5-Coder checkpoints alone, {strict:,} by the 1.5B with the "
    )
    assert f"{sentence}strict policy, and {old} come from release 1.1" in card
    for hard in (False, True):
        values = [rate.value for rate in osr(_matrix(hard)).values()]
        assert f"{100 * min(values):.1f} to {100 * max(values):.1f} %" in card


def test_no_prompt_is_taken_from_a_public_set(shared_data: Path) -> None:
    """None shares over 0.6 of its words with a public one (Jaccard), but six of 1.1's with their seeds, which
    are of HH-RLHF and whose purpose they turn."""
    from sklearn.feature_extraction.text import CountVectorizer

    theirs = {row[column]: "" for name, column in PUBLIC.items() for _, row in read_table(shared_data / name)}
    for _, row in read_table(shared_data / "hh_rlhf" / "harmless_base_test.jsonl.gz"):
        first = row["chosen"].removeprefix("\n\nHuman:").split("\n\nAssistant:")[0].strip()
        theirs[first] = prompt_id(first)
    rows, texts, seeds = [*ROWS, *COUNTERPARTS], list(theirs), list(theirs.values())
    counter = CountVectorizer(binary=True, token_pattern=r"\w+").fit(
        [*texts, *(row["prompt"] for row in rows)]
    )
    other = counter.transform(texts)
    near = []
    for start in range(0, len(rows), 500):
        part = rows[start : start + 500]
        ours = counter.transform(row["prompt"] for row in part)
        both = (ours @ other.T).toarray()
        either = np.asarray(ours.sum(1)) + np.asarray(other.sum(1)).T - both
        near += [(part[row], seeds[column]) for row, column in np.argwhere(both > 0.6 * either)]
    assert all(row["seed_id"] == seed != "" for row, seed in near), near
    assert len({row["id"] for row, _ in near}) == 6
