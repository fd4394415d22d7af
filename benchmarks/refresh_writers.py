"""One refresh with two writers: what each round's prompts came to, read blind, and what they cost.

    python benchmarks/refresh_writers.py                    # the tables, from the records that are kept
    python benchmarks/refresh_writers.py --sheet READER.csv quality=RUN small=RUN
    python benchmarks/refresh_writers.py --keep READER.csv --minutes FILE quality=RUN small=RUN
    python benchmarks/refresh_writers.py --sheet READER.csv    # without runs: one more reader
    python benchmarks/refresh_writers.py --keep READER.csv     # of the records that are kept

Both runs have the same seeds, target, labels and first detector. The records
(data/refresh_runs.jsonl.gz) hold a row of what both share, with the seeds by part, a row per round,
and per candidate that is a prompt at all: its seed's id (a prompt of HH-RLHF or of the first set), the
prompt, the gate that turned it away and why, the detector's probability, what the target did, and each
reader's verdict on what was accepted. A sheet is blind: the accepted prompts of all runs shuffled, with
neither run, round, word nor label. A reader fills in its column ``reading`` (what the words mean:
``rewrite_real.py``), and the sheet is named after the reader.

``--minutes`` is a file of JSON lines with ``run``, ``round``, ``stage`` and ``minutes``; the line of what
both share says ``calls``, too. data/detector_scores.csv.gz has the log-odds of every test prompt by
several detectors, by id.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rewrite_real import READINGS, share

from generators.detector.detector_report import DetectorReport
from generators.detector.scores import auroc, compare
from generators.refresh.run import Run, settings_of
from generators.refresh.store import Store
from overbench.review.annotators import cohens_kappa
from overbench_tasks.tables import read_table

DATA = Path(__file__).resolve().parent / "data"
RECORDS, SCORES = DATA / "refresh_runs.jsonl.gz", DATA / "detector_scores.csv.gz"
WRITERS = {"quality": "a large language model, by batch files", "small": "Qwen2.5-Coder-1.5B"}
BASELINE = "TF-IDF + logistic regression"
SECOND_ROUND = {
    "quality": "the run's of round 2, with the large language model's prompts",
    "small": "the run's of round 2, with the 1.5B's prompts",
}
"""The columns of the detectors that a run trained for its second round."""

Record = Mapping[str, Any]


def records() -> list[Record]:
    """The records that are kept: of both runs together, of each round, of each prompt."""
    return [row for _, row in read_table(RECORDS)]


def harmless(row: Record) -> bool:
    """Every reader says so."""
    return set(row["readings"].values()) == {"harmless"}


def rounds_table(rows: Sequence[Record]) -> Iterator[str]:
    """By writer and round: from the detector to what is accepted, refused, harmless."""
    yield (
        "| writer | round | detector, test AUROC | candidates | accepted | of these refused by the target | "
        "of these harmless | harmful | harmless, refused | turned away by the detector alone, refused |"
    )
    yield "| --- | ---: | --- | ---: | ---: | --- | --- | ---: | --- | --- |"
    for round_row in (row for row in rows if row["kind"] == "round"):
        run_and_round = round_row["run"], round_row["round"]
        made = [
            row for row in rows if row["kind"] == "prompt" and (row["run"], row["round"]) == run_and_round
        ]
        accepted = [row for row in made if not row["gate"]]
        good = [row for row in accepted if harmless(row)]
        explored = [row for row in made if row["gate"] and row["target"]]
        cells = [WRITERS[round_row["run"]], round_row["round"], round_row["auroc"], len(made), len(accepted)]
        harmful = sum("harmful" in row["readings"].values() for row in accepted)
        cells += [refused_of(accepted), share(len(good), len(accepted)), harmful]
        cells += [refused_of(good), refused_of(explored)]
        yield f"| {' | '.join(map(str, cells))} |"


def refused_of(rows: Sequence[Record]) -> str:
    return share(sum(row["target"] == "refused" for row in rows), len(rows))


def cost_table(rows: Sequence[Record]) -> Iterator[str]:
    """By writer, both rounds together: what a prompt took that is harmless and that the target refuses."""
    yield (
        "| writer | harmless and refused | for each: target calls | writer tokens | minutes | "
        "with what both share: target calls | minutes |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    [shared] = (row for row in rows if row["kind"] == "shared")
    for run, name in WRITERS.items():
        made = [row for row in rows if row["kind"] == "prompt" and row["run"] == run]
        rounds = [row for row in rows if row["kind"] == "round" and row["run"] == run]
        good = sum(not row["gate"] and row["target"] == "refused" and harmless(row) for row in made)
        calls, tokens = sum(bool(row["target"]) for row in made), sum(row["tokens"] for row in rounds)
        minutes = sum(sum(row["minutes"].values()) for row in rounds)
        whole = calls + shared["calls"], minutes + sum(shared["minutes"].values())
        cells = [f"{calls / good:.1f}", f"{tokens / good:,.0f}", f"{minutes / good:.2f}"]
        cells += [f"{whole[0] / good:.1f}", f"{whole[1] / good:.2f}"]
        yield f"| {' | '.join([name, str(good), *cells])} |"


def readers_table(rows: Sequence[Record]) -> Iterator[str]:
    """By writer and round: what the first two readers call harmless, and how far they agree on the words."""
    accepted = [row for row in rows if row["kind"] == "prompt" and not row["gate"]]
    first, second, *_ = accepted[0]["readings"]
    yield (
        f"| writer | round | harmless to `{first}` | to `{second}` | harmful to `{first}` | to `{second}` | "
        "the same word from both | Cohen's kappa |"
    )
    yield "| --- | ---: | --- | --- | ---: | ---: | --- | ---: |"
    places = list(dict.fromkeys((row["run"], row["round"]) for row in accepted))
    for run_and_round in [*places, None]:
        own = [row["readings"] for row in accepted if run_and_round in (None, (row["run"], row["round"]))]
        pairs = [(read[first], read[second]) for read in own]
        table = np.array([[pairs.count((reading, other)) for other in READINGS] for reading in READINGS])
        cells = [WRITERS[run_and_round[0]], str(run_and_round[1])] if run_and_round else ["both", "both"]
        for word in ("harmless", "harmful"):
            counts = [sum(read[reader] == word for read in own) for reader in (first, second)]
            cells += [share(n, len(own)) if word == "harmless" else str(n) for n in counts]
        cells += [share(int(np.trace(table)), len(own)), f"{float(cohens_kappa(table)):.2f}"]
        yield f"| {' | '.join(cells)} |"


def detector_table(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """AUROC of each detector on the test prompts, and its gain over the baseline; bootstrap intervals.

    And its AUROC on what the target did when it was asked once more, in other company: its server's bfloat16
    sums depend on which prompts share a batch.
    """
    refused, again = (
        np.array([row[column] == "1" for row in rows]) for column in ("refused", "refused_again")
    )
    base = np.array([float(row[BASELINE]) for row in rows])
    yield (
        f"| {len(rows)} test prompts, {refused.sum()} refused | AUROC | more than {BASELINE} | "
        f"AUROC, asked again: {again.sum()} refused, {(refused != again).sum()} turned |"
    )
    yield "| --- | --- | --- | --- |"
    for name in [column for column in rows[0] if column not in ("id", "refused", "refused_again")]:
        scores = np.array([float(row[name]) for row in rows])
        comparison = compare(refused, (scores, 0.0), (base, 0.0), random_seed=0)
        gain = "" if name == BASELINE else f"{comparison.auroc_gain:.3f}"
        yield f"| {name} | {comparison.detector.auroc:.3f} | {gain} | {auroc(again, scores):.3f} |"


def made_by(runs: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """Every candidate of the runs that is a prompt at all, in the order of the requests."""
    query = """
        SELECT prompt_id, prompt, gate, reason, refusal_probability, round, seed_id, feature
        FROM candidates JOIN jobs ON jobs.id = job_id ORDER BY round, wave, position, number"""
    for name, folder in runs.items():
        with Store(folder, read_only=True) as store:
            labels = store.labels(Run(settings_of(folder), store).reply_key)
            kept_ids = {prompt.id for prompt in store.prompts("accepted", "explored")}
            for row in map(dict, store._rows(query)):
                key, chance = row.pop("prompt_id"), row.pop("refusal_probability")
                label = labels.get(key, "") if key in kept_ids and row["gate"] in ("", "detector") else ""
                row |= {"p": None if chance is None else round(chance, 3), "target": label}
                if row["gate"] != "reply":
                    yield {"kind": "prompt", "run": name, **row}


def write_sheet(rows: Iterable[Record], file: Path) -> None:
    prompts = sorted({row["prompt"] for row in rows if row["kind"] == "prompt" and not row["gate"]})
    random.Random(file.stem).shuffle(prompts)
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([("prompt", "reading"), *((prompt, "") for prompt in prompts)])


def rounds_of(runs: Mapping[str, Path], minutes: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """One row per round of a run: its detector's AUROC, requests, tokens, minutes by stage."""
    query = """
        SELECT round, COUNT(*) AS requests, SUM(prompt_tokens + completion_tokens) AS tokens
        FROM jobs JOIN written ON job_id = jobs.id GROUP BY round ORDER BY round"""
    for name, folder in runs.items():
        with Store(folder, read_only=True) as store:
            finished, counted = store.finished(), list(map(dict, store._rows(query)))
        for row in counted:
            report = DetectorReport.model_validate(finished[row["round"], "train"])
            comparison = report.test.get("seeds", report.test["all"])
            took = [stage for stage in minutes if (stage["run"], stage["round"]) == (name, row["round"])]
            row["minutes"] = {stage["stage"]: stage["minutes"] for stage in took}
            yield {"kind": "round", "run": name, **row, "auroc": f"{comparison.detector.auroc:.3f}"}


def seeds_of(folder: Path) -> dict[str, Any]:
    """How many seeds of a run its target refuses, and how many are in each part."""
    with Store(folder, read_only=True) as store:
        labels = store.labels(Run(settings_of(folder), store).reply_key)
        seeds = [dict(row) for row in store._rows("SELECT id, part FROM prompts WHERE round = 0")]
    parts = Counter(row["part"] for row in seeds)
    refused = sum(labels.get(row["id"]) == "refused" for row in seeds)
    return {"refused": refused, "parts": dict(sorted(parts.items()))}


def measured(runs: Mapping[str, Path], minutes: Path) -> Iterator[dict[str, Any]]:
    """All rows of the records, which nobody has read yet."""
    timed = [row for _, row in read_table(minutes)]
    both = [row for row in timed if row["run"] == "shared"]
    took = {row["stage"]: row["minutes"] for row in both}
    calls = sum(row.get("calls", 0) for row in both)
    yield {"kind": "shared", **seeds_of(next(iter(runs.values()))), "calls": calls, "minutes": took}
    yield from rounds_of(runs, timed)
    yield from ({**row, "readings": {}} for row in made_by(runs))


def keep(rows: Iterable[Record], sheets: Sequence[Path], file: Path | None = None) -> None:
    """Join readings to the candidates and write the records; the same input gives the same bytes."""
    votes = {sheet.stem: {row["prompt"]: row["reading"] for _, row in read_table(sheet)} for sheet in sheets}
    text = ""
    for row in rows:
        if row["kind"] == "prompt" and not row["gate"]:
            readings = {name: read[row["prompt"]] for name, read in votes.items()}
            assert set(readings.values()) <= set(READINGS), row["prompt"]
            row = {**row, "readings": row["readings"] | readings}
        text += json.dumps(row, ensure_ascii=False) + "\n"
    (file or RECORDS).write_bytes(gzip.compress(text.encode(), mtime=0))


def lines() -> Iterator[str]:
    """What the page shows of the records."""
    rows = records()
    yield from (*rounds_table(rows), "", *readers_table(rows), "", *cost_table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sheet", type=Path, help="write a blind reading sheet")
    parser.add_argument("--keep", type=Path, action="append", default=[], help="a filled sheet; repeated")
    parser.add_argument("--minutes", type=Path, help="what took how long")
    parser.add_argument("runs", nargs="*", help="WRITER=RUN_DIR, of " + ", ".join(WRITERS))
    given = parser.parse_args()
    runs = {name: Path(folder) for name, _, folder in (argument.partition("=") for argument in given.runs)}
    if given.sheet:
        write_sheet(made_by(runs) if runs else records(), given.sheet)
        return
    if given.keep:
        keep(measured(runs, given.minutes) if runs else records(), given.keep)
    print("\n".join([*detector_table([row for _, row in read_table(SCORES)]), "", *lines()]))


if __name__ == "__main__":
    main()
