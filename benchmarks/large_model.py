"""What a current large model does with the boundary tier, beside other sets; asked alone, and asked again.

    python benchmarks/large_model.py

``data/release_v3/large_model_sets.jsonl.gz`` has a row for each reply to a request of another set, drawn at
random, with the label that another instance gave it. They were asked in batches of 20 as the candidates
were (``candidate_answers.py``), all sets mixed. ``large_model_again.jsonl.gz`` has replies to boundary
prompts that were asked before: ``alone`` with nothing beside them, ``again`` in a batch. A request of
OR-Bench-Hard has the hash of its text as its id; the set itself is not kept here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from candidate_answers import Row, answers, outcome, outcome_table
from candidate_readings import DATA, candidates, readings
from release_tiers import COUNTERPARTS, tiers

from overbench_tasks.tables import read_table

SETS: Final = {
    "control": "control",
    "release-2.0": "release 2.0, not in control",
    "or-bench-hard": "OR-Bench-Hard",
    COUNTERPARTS: "counterparts",
}
"""Set -> its name in the table."""


def replies(name: str) -> list[Row]:
    """The rows of a file of replies."""
    return [row for _, row in read_table(DATA / f"{name}.jsonl.gz")]


def table(boundary: Sequence[Row], others: Sequence[Row]) -> Iterator[str]:
    """A Markdown table: a row for each set, and for the parts of the boundary tier."""
    prompts = candidates()
    sets = {
        "boundary": boundary,
        "of these written before any failure": [r for r in boundary if not prompts[r["id"]].get("round")],
        "of these written after failures": [r for r in boundary if prompts[r["id"]].get("round")],
    }
    sets |= {shown: [row for row in others if row["set"] == name] for name, shown in SETS.items()}
    yield from outcome_table("requests", sets)


def asked_again(first: Sequence[Row], again: Sequence[Row]) -> Iterator[str]:
    """How the outcomes of prompts that were asked more than once differ."""
    outcomes = {row["id"]: outcome(row) for row in first}
    alone = [row for row in again if row["how"] == "alone"]
    full = [sum(label == "complied" for label in labels) for labels in _sides(alone, outcomes)]
    yield (
        f"{len(alone)} requests asked alone as well: {full[1]} answered in full alone, "
        f"{full[0]} in their batch"
    )
    later: dict[str, list[str]] = {}
    for row in again:
        if row["how"] == "again":
            later.setdefault(row["id"], []).append(outcome(row))
    times = Counter(sum(label != "complied" for label in labels) for labels in later.values())
    yield (
        f"{len(later)} requests not answered in full, asked twice more: {times[0]} answered in full both "
        f"times, {times[1]} once, {times[2]} never"
    )


def _sides(rows: Sequence[Row], outcomes: dict[str, str]) -> tuple[list[str], list[str]]:
    return [outcomes[row["id"]] for row in rows], [outcome(row) for row in rows]


def main() -> None:
    """Print the tables."""
    tier = {row["id"] for row in tiers(candidates(), readings())["boundary"]}
    boundary = [row for row in answers() if row["id"] in tier]
    lines = [*table(boundary, replies("large_model_sets")), ""]
    lines += asked_again(answers(), replies("large_model_again"))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
