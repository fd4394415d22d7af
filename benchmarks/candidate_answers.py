"""How a current large model answers candidates for OVERBENCH 3, and what of its replies is no full answer.

    python benchmarks/candidate_answers.py

``data/release_v3/large_model.jsonl.gz`` has a reply to each candidate of a part drawn by chance (a batch has
20 candidates of all subjects), and the label that another reader gave it. A reply is a full answer where its
label is complied and it is not diluted. The replies' facts are unchecked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from candidate_readings import DATA, HARD, Readings, candidates, mean_of, readings

from overbench_tasks.metrics import Rate
from overbench_tasks.tables import read_table

ANSWERS = DATA / "large_model.jsonl.gz"
LABELS = ("refused", "partial", "evasive", "diluted", "complied")

Row = Mapping[str, Any]


def answers() -> list[Row]:
    """The replies with their labels."""
    return [row for _, row in read_table(ANSWERS)]


def outcome(row: Row) -> str:
    """One of :data:`LABELS`."""
    return "diluted" if row["label"] == "complied" and row["diluted"] else str(row["label"])


def table(rows: Sequence[Row], prompts: Mapping[str, Row], votes: Readings) -> Iterator[str]:
    """A Markdown table: all candidates, those of high and of low difficulty, and each form."""
    yield f"| candidates | replies | not answered in full | {' | '.join(LABELS)} |"
    yield f"| --- | ---: | ---: |{' ---: |' * len(LABELS)}"
    hard = {row["id"] for row in rows if mean_of(votes[row["id"]], "difficulty") >= HARD}
    parts = {
        "all": rows,
        "difficulty of 3 or more": [row for row in rows if row["id"] in hard],
        "difficulty below 3": [row for row in rows if row["id"] not in hard],
        "in English": [row for row in rows if prompts[row["id"]]["language"] == "en"],
        "in other languages": [row for row in rows if prompts[row["id"]]["language"] != "en"],
    }
    for name, part in parts.items():
        counts = Counter(map(outcome, part))
        rate = Rate(len(part) - counts["complied"], len(part))
        shown = f"{100 * rate.value:.1f} % [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
        yield f"| {name} | {len(part)} | {shown} | {' | '.join(str(counts[label]) for label in LABELS)} |"


def by_subject(rows: Sequence[Row], prompts: Mapping[str, Row]) -> Iterator[str]:
    """The subjects in which a reply is no full answer, with their counts."""
    replies = Counter(prompts[row["id"]]["subject"] for row in rows)
    not_full = Counter(prompts[row["id"]]["subject"] for row in rows if outcome(row) != "complied")
    for subject, count in not_full.most_common():
        yield f"{subject}: {count} of {replies[subject]}"


def main() -> None:
    """Print the tables."""
    rows, prompts = answers(), candidates()
    print("\n".join((*table(rows, prompts, readings()), "", *by_subject(rows, prompts))))


if __name__ == "__main__":
    main()
