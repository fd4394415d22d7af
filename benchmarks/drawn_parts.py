"""A hundred prompts for all of a set: its first rows, a hundred at random, and as ``overbench_sample`` draws.

    python benchmarks/drawn_parts.py

The order and the categories of XSTest and OR-Bench-Hard come from the folder that ``OVERBENCH_SHARED_DATA``
names, what models did with their prompts from ``data/outcomes`` and ``data/neighbour_outcomes``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from labelled_sets import SHARED_DATA

from overbench.report.report_inputs import read_inputs
from overbench.report.stats.matrix import MISSING, ResponseMatrix
from overbench_tasks.metrics.stop_at_ci_width import part_interval
from overbench_tasks.outcomes.outcome_tables import find_outcomes
from overbench_tasks.prompts.neighbours import neighbour_rows
from overbench_tasks.prompts.random_order import in_random_order

DATA: Final = Path(__file__).resolve().parent / "data"
SIZE: Final = 100
DRAWS: Final = 500
XSTEST: Final = SHARED_DATA / "xstest" / "prompts.csv"
SETS: Final = {
    "XSTest safe": ("overbench_xstest_safe", XSTEST),
    "XSTest unsafe": ("overbench_xstest_unsafe", XSTEST),
    "OR-Bench-Hard": ("overbench_or_bench_hard", SHARED_DATA / "neighbours" / "or-bench-hard-1k.csv"),
}
SOURCES: Final = {
    "of configurations of three small checkpoints": ("neighbour_outcomes/xstest.csv.gz",),
    "of models of 2025-26, published": ("outcomes/xstest.csv.gz", "outcomes/or_bench_hard.csv.gz"),
}


def answers(files: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Set -> model -> id of a prompt -> whether it was refused; of models that answered nine tenths of it."""
    inputs = read_inputs([], outcomes=find_outcomes([DATA / file for file in files]))
    matrices = {"XSTest unsafe": inputs.unsafe[0].refused}
    for prompt_set in inputs.sets:
        matrices["OR-Bench-Hard" if prompt_set.name == "or_bench_hard" else "XSTest safe"] = prompt_set.matrix
    return {name: dict(_by_model(matrix, inputs.texts)) for name, matrix in matrices.items()}


def _by_model(matrix: ResponseMatrix, texts: Mapping[str, str]) -> Iterator[tuple[str, dict[str, float]]]:
    ids = [texts[prompt_id] for prompt_id in matrix.prompt_ids]  # the tables have ids in place of the prompts
    for model in matrix.targets:
        column = dict(zip(ids, map(float, matrix.column(model)), strict=True))
        scored = {identity: value for identity, value in column.items() if value != MISSING}
        if len(scored) >= 0.9 * len(column):
            yield model, scored


def parts(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[list[str]]]:
    """Way of choosing -> the ids of each choice."""
    alike = [{**row, "category": None} for row in rows]
    ways = {"the first": [rows[:SIZE]]}
    for name, some in (("at random", alike), ("drawn", rows)):
        ways[name] = [in_random_order(some, SIZE, seed) for seed in range(DRAWS)]
    return {name: [[str(row["id"]) for row in chosen] for chosen in some] for name, some in ways.items()}


def errors(chosen: Sequence[Sequence[str]], refused: Mapping[str, float]) -> tuple[float, float]:
    """The mean error of the rate, in points, and how often its interval holds the rate on all prompts."""
    truth, off, held = sum(refused.values()) / len(refused), 0.0, 0
    for ids in chosen:
        values = [refused[prompt_id] for prompt_id in ids if prompt_id in refused]
        low, high = part_interval(sum(values), len(values), len(refused))
        off += abs(sum(values) / len(values) - truth)
        held += low <= truth <= high
    return 100 * off / len(chosen), 100 * held / len(chosen)


def table() -> Iterator[str]:
    """The lines of a Markdown table."""
    yield (
        f"| set, outcomes (how many) | prompts | categories, those of the first {SIZE} | the first: error, "
        "mean (worst) | at random | drawn over categories | their coverage, worst (mean), % |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for source, files in SOURCES.items():
        for name, models in sorted(answers(files).items()):
            rows, _ = neighbour_rows(SETS[name][0], str(SETS[name][1]))
            errors_of_ways = {
                way: [errors(chosen, refused) for refused in models.values()]
                for way, chosen in parts(rows).items()
            }
            off = [
                f"{sum(error for error, _ in some) / len(some):.1f} ({max(some)[0]:.1f})"
                for some in errors_of_ways.values()
            ]
            held = [share for _, share in errors_of_ways["drawn"]]
            kinds, first = ({row["category"] for row in some} for some in (rows, rows[:SIZE]))
            yield (
                f"| {name}, {source} ({len(models)}) | {len(rows):,} | {len(kinds)}, {len(first)} | "
                f"{' | '.join(off)} | {min(held):.1f} ({sum(held) / len(held):.1f}) |"
            )


if __name__ == "__main__":
    print("\n".join(table()))
