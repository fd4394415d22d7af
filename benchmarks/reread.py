"""Contested requests and 60 of the boundary tier, read again with reasons: agreement beside chance.

    python benchmarks/reread.py

``data/release_v3/reread.csv.gz`` has a row for each reading: the request, the reader, the reason and then the
verdict. The boundary prompts were drawn at random and mixed with all candidates on which the first
readers differed. The readers saw neither earlier votes nor tiers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from candidate_readings import DATA, Readings, candidates, readings
from tier_readings import agreement

from overbench_tasks.tables import read_table

Row = Mapping[str, Any]


def rereadings() -> dict[str, list[Row]]:
    """Id -> its readings with reasons."""
    of_request: dict[str, list[Row]] = defaultdict(list)
    for _, row in read_table(DATA / "reread.csv.gz"):
        of_request[row["id"]].append(row)
    return of_request


def report(again: Mapping[str, Sequence[Row]], first: Readings) -> Iterator[str]:
    """The figures, a line each."""
    split = {name for name in again if len({vote["verdict"] for vote in first[name]}) > 1}
    parts = {"boundary": again.keys() - split, "contested": split}
    for name, ids in parts.items():
        verdicts = Counter(row["verdict"] for identity in ids for row in again[identity])
        counts = ", ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common())
        same = sum(len({row["verdict"] for row in again[identity]}) == 1 for identity in ids)
        yield f"{name}: {len(ids)} requests, {counts}; all readers alike on {same}"
    yield agreement({"all": again})


def main() -> None:
    """Print the figures."""
    rows = candidates()
    again = {name: votes for name, votes in rereadings().items() if name in rows}
    print("\n".join(report(again, readings())))


if __name__ == "__main__":
    main()
