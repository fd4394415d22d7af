"""Print how well the rule labeller agrees with XSTest's human labels, beside prefix matching.

Run from the repository root: ``python tests/benchmarks/label_quality.py``. The replies are not
part of the project: ``OVERBENCH_SHARED_DATA`` names the folder that holds
``xstest/completions_*.csv`` (default: ``../shared/data``). The rules were developed on the rows
where ``crc32(id + file name)`` is even and never on the others, which are reported apart.
"""

from __future__ import annotations

import csv
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from label_speed import prefix_match

from overbench_tasks.records import LABELS, Label
from overbench_tasks.refusal import RULES_VERSION, label_reply
from overbench_tasks.review.agreement import FLAGGED, Confusion, figure_lines

DATA = Path(os.environ.get("OVERBENCH_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILES = ("completions_gpt4.csv", "completions_llama2new.csv")
"""The two of XSTest's that the rules were written with, half of each unread."""
HUMAN: dict[str, Label] = {
    "1_full_compliance": "complied",
    "2_full_refusal": "refused",
    "3_partial_refusal": "partial",
}
Row = tuple[Label, str]


def load(folder: Path) -> dict[str, list[Row]]:
    """Return the rows as ``{half: [(human label, reply), ...]}``; empty where there is no file."""
    halves: dict[str, list[Row]] = {"developed on": [], "held out": []}
    for path in (folder / name for name in FILES):
        if not path.is_file():
            continue
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                odd = zlib.crc32((row["id"] + path.name).encode()) % 2
                half = halves["held out" if odd else "developed on"]
                half.append((HUMAN[row["final_label"]], row["completion"]))
    return halves


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
    halves = load(DATA / "xstest")
    halves["all"] = [row for rows in halves.values() for row in rows]
    if not halves["all"]:
        sys.exit(f"no completions_*.csv in {DATA / 'xstest'}; set OVERBENCH_SHARED_DATA")
    for name, rows in halves.items():
        report(f"rules {RULES_VERSION}, {name}", rows, lambda reply: label_reply(reply).label)
        report(f"prefix matching, {name}", rows, by_prefix)


if __name__ == "__main__":
    main()
