"""A refresh with few seeds: what comes of it where the detector has too few prompts to be tuned on.

    python benchmarks/refresh_few_seeds.py               # the table, from the records that are kept
    python benchmarks/refresh_few_seeds.py --sheet READER.csv RUN
    python benchmarks/refresh_few_seeds.py --keep READER.csv RUN

Without RUN, of the records that are kept: one more reader.

RUN is the folder of an ``overbench refresh`` with the settings of ``refresh_real.yaml``, 460 of its seeds and
the default shares of generation, validation and test. The records (data/refresh_few_seeds.jsonl.gz) are
of the form that ``refresh_writers.py`` tells of.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from refresh_writers import (
    DATA,
    Record,
    harmless,
    keep,
    made_by,
    refused_of,
    rounds_of,
    seeds_of,
    write_sheet,
)
from rewrite_real import share

from overbench_tasks.tables import read_table

RECORDS = DATA / "refresh_few_seeds.jsonl.gz"
RANKED_LOW = "not_among_the_likeliest"
"""The reason of a candidate that lost to others of its request, by a detector that only ranks."""


def table(rows: Sequence[Record]) -> Iterator[str]:
    """Per round: candidates, what the detector ranked first and last, and what the target refused of each."""
    yield (
        "| round | detector, test AUROC | candidates | accepted | of these refused by the target | of these "
        "harmless | harmless, refused | ranked lower, of those asked anyway refused |"
    )
    yield "| ---: | --- | ---: | ---: | --- | --- | --- | --- |"
    for round_row in (row for row in rows if row["kind"] == "round"):
        made = [row for row in rows if row["kind"] == "prompt" and row["round"] == round_row["round"]]
        accepted = [row for row in made if not row["gate"]]
        lower = [row for row in made if row["reason"] == RANKED_LOW and row["target"]]
        good = [row for row in accepted if harmless(row)]
        cells = [round_row["round"], round_row["auroc"], len(made), len(accepted), refused_of(accepted)]
        cells += [share(len(good), len(accepted)), refused_of(good), refused_of(lower)]
        yield f"| {' | '.join(map(str, cells))} |"


def measured(run: Path) -> list[Record]:
    """All rows of the records, which nobody has read yet."""
    runs = {"few seeds": run}
    unread = ({**row, "readings": {}} for row in made_by(runs))
    return [{"kind": "shared", **seeds_of(run)}, *rounds_of(runs, ()), *unread]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sheet", type=Path, help="write a blind reading sheet")
    parser.add_argument("--keep", type=Path, action="append", default=[], help="a filled sheet; repeated")
    parser.add_argument("run", nargs="?", type=Path)
    given = parser.parse_args()
    if given.sheet or given.keep:
        rows = measured(given.run) if given.run else [row for _, row in read_table(RECORDS)]
        if given.sheet:
            write_sheet(rows, given.sheet)
            return
        keep(rows, given.keep, RECORDS)
    print("\n".join(table([row for _, row in read_table(RECORDS)])))


if __name__ == "__main__":
    main()
