"""Published outcomes of real models on XSTest and OR-Bench-Hard: does safety go with over-refusal?

    python benchmarks/real_outcomes.py           prints the tables of docs/measurements/outcomes.md
    python benchmarks/real_outcomes.py --pack    makes data/outcomes/ from the shared data

What is packed are outcomes alone, with prompt ids in place of the prompts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from shared import write_csv

from overbench.report.report_inputs import Inputs, read_inputs
from overbench.report.stats.correlations import rank_correlation
from overbench.report.stats.rates import osr
from overbench_tasks.metrics import Rate
from overbench_tasks.outcomes.outcome_tables import find_outcomes
from overbench_tasks.prompts import prompt_id
from overbench_tasks.tables import read_table

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = REPOSITORY / "benchmarks" / "data" / "outcomes"
FILES = {name: DATA / f"{name}.csv.gz" for name in ("xstest", "or_bench_hard")}
COLUMNS = ("prompt", "model", "outcome", "prompt_label", "category")


def pack(shared: Path) -> None:
    """The shared tables without texts; of XSTest only what has an English original."""
    for name in FILES:
        rows = []
        for _, row in read_table(shared / "outcomes" / f"{name}_by_model.jsonl.gz"):
            if not (row.get("type", "").endswith("k_idioms") and row["prompt"] == row["asked"]):
                side_and_category = {
                    "prompt_label": row.get("prompt_label", "safe"),
                    "category": row.get("category", ""),
                }
                rows.append({**row, **side_and_category, "prompt": prompt_id(row["prompt"])})
        write_csv(FILES[name], COLUMNS, sorted(rows, key=lambda row: [row[column] for column in COLUMNS]))


def read() -> Inputs:
    return read_inputs([], outcomes=find_outcomes(list(FILES.values())))


def rates_table(inputs: Inputs) -> Iterator[str]:
    """Per model both sides of XSTest, and OR-Bench-Hard with what is no refusal and no answer apart."""
    safe = {prompt_set.name: osr(prompt_set.matrix) for prompt_set in inputs.sets}
    [unsafe] = inputs.unsafe
    refused, complied = unsafe.correct_refusals(), unsafe.harmful_compliance()
    labels = {label.target: label for label in inputs.labels if label.set_name == "or_bench_hard"}
    yield (
        "| model | XSTest unsafe, refused | complied | XSTest safe, refused | OR-Bench-Hard, refused "
        "| deflected | empty |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for model in sorted(refused, key=lambda name: -refused[name].value):
        hard, count = safe["or_bench_hard"].get(model, Rate(0, 0)), labels.get(model)
        evasive = Rate(count.labels["evasive"], hard.n) if count else hard
        cells = [*map(_percent, (refused[model], complied[model], safe["xstest"][model], hard, evasive))]
        empty = f"{count.reasons['empty']:,} of {count.prompts:,}" if count else "–"
        yield f"| {model} | {' | '.join(cells)} | {empty} |"


def _percent(rate: Rate) -> str:
    return f"{100 * rate.value:.1f} % of {rate.n:,}" if rate.n else "–"


def correlations_table(inputs: Inputs) -> Iterator[str]:
    """Safety, XSTest's unsafe prompts refused, against three measures of over-refusal."""
    matrices = {prompt_set.name: prompt_set.matrix for prompt_set in inputs.sets}
    [unsafe] = inputs.unsafe
    hard = matrices["or_bench_hard"]
    # What deflection counts as: scored, and no refusal.
    measures = {
        "XSTest safe": (matrices["xstest"].targets, matrices["xstest"].values),
        "OR-Bench-Hard": (hard.targets, hard.values),
        "OR-Bench-Hard, empty replies counted as deflection": (hard.targets, np.maximum(hard.values, 0)),
    }
    yield "| over-refusal on | models | Spearman's rho | Kendall's tau-b |"
    yield "| --- | ---: | ---: | ---: |"
    for name, (targets, values) in measures.items():
        places = [unsafe.refused.targets.index(target) for target in targets]
        correlation = rank_correlation(unsafe.refused.values[:, places], values)
        assert correlation is not None
        both = [
            f"{coefficient.value:.2f} ({coefficient.low:.2f} to {coefficient.high:.2f})"
            for coefficient in (correlation.rho, correlation.tau)
        ]
        yield f"| {name} | {correlation.n} | {' | '.join(both)} |"


if __name__ == "__main__":
    if "--pack" in sys.argv:
        from labelled_sets import SHARED_DATA

        pack(SHARED_DATA)
    inputs = read()
    print("\n".join([*inputs.notes, "", *rates_table(inputs), "", *correlations_table(inputs)]))
