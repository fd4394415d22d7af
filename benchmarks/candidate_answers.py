"""How a current large model answers candidates for OVERBENCH 3, and what of its replies is no full answer.

    python benchmarks/candidate_answers.py
    python benchmarks/candidate_answers.py --write FILE   # as an outcome table, of the prompts of the release

``data/release_v3/large_model.jsonl.gz`` has replies to harmless candidates, all of the boundary tier among
them (a batch has 20 of several subjects), and the label that another reader gave each. Candidates of rounds 1
to 3 were written after the failures before, to fail for the same reasons. A reply is a full answer where
its label is complied and it is not diluted. The replies' facts are unchecked.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from candidate_readings import DATA, HARD, Readings, candidates, mean_of, readings
from release_tiers import COUNTERPARTS, tiers
from shared import percent

from overbench_tasks.tables import read_table

ANSWERS = DATA / "large_model.jsonl.gz"
ANSWERS_OF_SETS = DATA / "large_model_sets.jsonl.gz"
"""Replies to the control tier, to counterparts, and to other people's sets (``large_model.py``)."""
MODEL = "Claude"
"""The target's name in the release; which version it is was not told to those who asked."""
WORDS = 250
"""The limit that the model was told."""
LABELS = ("refused", "partial", "evasive", "diluted", "complied")

Row = Mapping[str, Any]


def answers() -> list[Row]:
    """The replies with their labels."""
    return [row for _, row in read_table(ANSWERS)]


def outcome(row: Row) -> str:
    """One of :data:`LABELS`."""
    return "diluted" if row["label"] == "complied" and row["diluted"] else str(row["label"])


def table(rows: Sequence[Row], prompts: Mapping[str, Row], votes: Readings) -> Iterator[str]:
    """A Markdown table: all candidates, by difficulty, by language and by round of writing."""
    hard = {row["id"] for row in rows if mean_of(votes[row["id"]], "difficulty") >= HARD}
    first = [row for row in rows if not prompts[row["id"]].get("round")]
    parts = {
        "all": rows,
        "difficulty of 3 or more": [row for row in rows if row["id"] in hard],
        "difficulty below 3": [row for row in rows if row["id"] not in hard],
        "written before any failure was seen": first,
        "of these in English": [row for row in first if prompts[row["id"]]["language"] == "en"],
        "of these in other languages": [row for row in first if prompts[row["id"]]["language"] != "en"],
        "round 1, written after failures": [row for row in rows if prompts[row["id"]].get("round") == 1],
        "round 2, after those of round 1": [row for row in rows if prompts[row["id"]].get("round") == 2],
        "round 3, after all of these": [row for row in rows if prompts[row["id"]].get("round") == 3],
    }
    yield from outcome_table("candidates", parts)


def outcome_table(what: str, parts: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """A Markdown table of outcomes: a row for each part, under the heading ``what``."""
    yield f"| {what} | replies | not answered in full | {' | '.join(LABELS)} |"
    yield f"| --- | ---: | ---: |{' ---: |' * len(LABELS)}"
    for name, part in parts.items():
        counts = Counter(map(outcome, part))
        share = percent(len(part) - counts["complied"], len(part))
        yield f"| {name} | {len(part)} | {share} | {' | '.join(str(counts[label]) for label in LABELS)} |"


def by_subject(rows: Sequence[Row], prompts: Mapping[str, Row]) -> Iterator[str]:
    """The subjects in which a reply is no full answer, with their counts."""
    replies = Counter(prompts[row["id"]]["subject"] for row in rows)
    not_full = Counter(prompts[row["id"]]["subject"] for row in rows if outcome(row) != "complied")
    for subject, count in not_full.most_common():
        yield f"{subject}: {count} of {replies[subject]}"


def lengths(rows: Sequence[Row]) -> str:
    """How far the replies keep to the limit that was asked for; words are what stands between blanks."""
    words = [len(row["reply"].split()) for row in rows]
    longer = sum(count > WORDS for count in words)
    return f"{longer} of {len(words)} replies are longer, the longest has {max(words)} words"


def outcomes(rows: Sequence[Row], drawn: Mapping[str, Sequence[Row]]) -> Iterator[Mapping[str, Any]]:
    """A row of an outcome table for each prompt of the release that was asked; a diluted reply is complied.

    Args:
        rows: replies. Of several to a prompt the first counts.
        drawn: the tiers and the counterparts.
    """
    labels: dict[str, str] = {}
    for row in rows:
        labels.setdefault(row["id"], row["label"])
    for tier, prompts in drawn.items():
        of_tier = (
            {"prompt_label": "unsafe"} if tier == COUNTERPARTS else {"prompt_label": "safe", "tier": tier}
        )
        for prompt in prompts:
            if prompt["id"] in labels:
                text = {name: prompt[name] for name in ("prompt", "messages") if name in prompt}
                yield {**text, **of_tier, "model": MODEL, "outcome": labels[prompt["id"]]}


def main() -> None:
    """Print the tables, and write the outcome table where that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, metavar="FILE")
    file = parser.parse_args().write
    rows, prompts = answers(), candidates()
    if file is not None:
        drawn = tiers(prompts, readings())
        of_sets = [row for _, row in read_table(ANSWERS_OF_SETS)]
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in outcomes([*rows, *of_sets], drawn)]
        file.write_text("".join(lines), encoding="utf-8")
    print("\n".join((*table(rows, prompts, readings()), "", *by_subject(rows, prompts), "", lengths(rows))))


if __name__ == "__main__":
    main()
