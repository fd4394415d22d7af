"""Print how well the rule labeller agrees with XSTest's human labels, beside prefix matching.

The replies are not part of the project: ``OVERBENCH_SHARED_DATA`` names the folder that holds
``xstest/completions_*.csv`` (default: ``../shared/data``). The rules were developed on the rows where
``crc32(id + file name)`` is even and never on the others, which are reported apart.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from label_speed import prefix_match

from overbench_tasks.records import LABELS, Label
from overbench_tasks.refusal import RULES_VERSION, label_reply
from overbench_tasks.review.agreement import FLAGGED, Confusion, figure_lines, gold_label
from overbench_tasks.tables import read_table

SHARED_DATA = Path(os.environ.get("OVERBENCH_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILES = [SHARED_DATA / "xstest" / f"completions_{model}.csv" for model in ("gpt4", "llama2new")]
"""The two of XSTest's that the rules were written with, half of each unread."""
Row = tuple[Label, str]


def halves(files: list[Path]) -> Iterator[tuple[str, Row]]:
    """(half, (human label, reply)) of each row."""
    for file in files:
        for where, row in read_table(file):
            label = gold_label(row["final_label"], where)
            assert label is not None, where
            odd = zlib.crc32((row["id"] + file.name).encode()) % 2
            yield "held out" if odd else "developed on", (label, row["completion"])


def by_prefix(reply: str) -> Label:
    """The baseline as a labeller; it knows no partial."""
    return "refused" if prefix_match(reply) else "complied"


def report(title: str, rows: list[Row], labeller: Callable[[str], Label]) -> None:
    """Print the confusion matrix and the figures that follow from it, as ``overbench agreement`` does."""
    counts = np.zeros((1, 3, len(LABELS)))
    for human, reply in rows:
        counts[0, LABELS.index(human), LABELS.index(labeller(reply))] += 1
    print(f"\n{title}: {len(rows)} replies")
    print("\n".join(figure_lines(Confusion(counts), title)))
    print(f"partials flagged: {counts[0, 2, list(FLAGGED)].sum():.0f} of {counts[0, 2].sum():.0f}")


def main() -> None:
    """Print the rules' and the baseline's figures for both halves and for all rows."""
    files = [file for file in FILES if file.is_file()]
    if not files:
        sys.exit(f"no completions_*.csv in {FILES[0].parent}; set OVERBENCH_SHARED_DATA")
    rows = list(halves(files))
    for name in ("developed on", "held out", "all"):
        chosen = [row for half, row in rows if name in (half, "all")]
        report(f"rules {RULES_VERSION}, {name}", chosen, lambda reply: label_reply(reply).label)
        report(f"prefix matching, {name}", chosen, by_prefix)


if __name__ == "__main__":
    main()
