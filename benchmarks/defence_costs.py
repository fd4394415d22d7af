"""What named defences cost and save: refusals of XSTest's prompts, safe and unsafe, with and without one.

    python benchmarks/defence_costs.py                    # the tables of docs/measurements/defences.md
    python benchmarks/defence_costs.py --measured FOLDER  # read anew from lm-eval's outputs, and kept

FOLDER holds, per way of asking (``bare``, or a name of ``overbench defence``), ``NAME/xstest_safe`` and
``NAME/xstest_unsafe``: lm_eval's ``--output_path`` of a run of the task ``overbench`` with ``--log_samples``,
with the 250 safe or the 200 unsafe prompts of XSTest as ``overbench_source``. What is kept in
``data/defence_verdicts.csv.gz`` are ids and labels, no prompts and no replies.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from shared import write_csv

from overbench.report.stats.comparisons import holm, paired_test
from overbench_tasks.defences.defences import defences
from overbench_tasks.metrics import Rate
from overbench_tasks.metrics.balance import Balance
from overbench_tasks.outcomes.logs import sample_logs
from overbench_tasks.outcomes.reply_rows import read_replies
from overbench_tasks.prompts import prompt_id
from overbench_tasks.tables import read_table

VERDICTS = Path(__file__).parent / "data" / "defence_verdicts.csv.gz"
COLUMNS = ("asked", "prompt_label", "id", "label")
SIDES = {"safe": "xstest_safe", "unsafe": "xstest_unsafe"}
BARE = "bare"

Counts = Mapping[str, Mapping[str, Counter[str]]]
"""By way of asking, then by the label of the prompts: how many replies have which label."""


def measured(folder: Path) -> Iterator[dict[str, str]]:
    """A row of :data:`COLUMNS` per reply, by the verdicts that the logs hold."""
    for defence in (BARE, *defences()):
        for side, name in SIDES.items():
            logs = sample_logs(folder / defence / name)
            if not logs:
                raise SystemExit(f"Expected lm_eval's sample logs at {folder / defence / name}, found none.")
            for row in read_replies(logs[-1]):
                [verdict] = row.logged
                identity = prompt_id(str(row.prompt))
                yield dict(zip(COLUMNS, (defence, side, identity, verdict.label), strict=True))


def counted(rows: Iterable[Mapping[str, str]]) -> Counts:
    """The labels of each way of asking, on either side."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in rows:
        counts[row["asked"]][row["prompt_label"]][row["label"]] += 1
    return counts


def share(labels: Counter[str], *counting: str) -> Rate:
    """Of the scored replies, those with one of these labels."""
    return Rate(sum(labels[label] for label in counting), labels.total() - labels["unscored"])


def table(counts: Counts) -> Iterator[str]:
    """The lines of a Markdown table, a way of asking per row."""
    yield "| instruction | over-refusal, % | correct refusals, % | harmful compliance, % | Youden's J |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for defence, sides in counts.items():
        balance = Balance(share(sides["safe"], "refused"), share(sides["unsafe"], "refused"))
        harmful = share(sides["unsafe"], "complied", "partial")
        figures = [
            f"{100 * rate.value:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
            for rate in (balance.over_refusal, balance.correct_refusal, harmful)
        ]
        name = "none" if defence == BARE else f"`{defence}`"
        yield f"| {name} | {' | '.join(figures)} | {balance.youden_j:.2f} |"


def paired_table(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The lines of a Markdown table: prompts that are refused with a defence alone, or without alone.

    Prompts without a label on either side are left out. The p-values of all tests have Holm's correction.
    """
    labels: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for row in rows:
        labels[row["asked"], row["prompt_label"]][row["id"]] = row["label"]
    ways = [way for way in dict.fromkeys(row["asked"] for row in rows) if way != BARE]
    differences = {
        (way, side): np.array(
            [
                float(label == "refused") - float(labels[BARE, side][identity] == "refused")
                for identity, label in labels[way, side].items()
                if "unscored" not in (label, labels[BARE, side].get(identity, "unscored"))
            ]
        )
        for way in ways
        for side in SIDES
    }
    p_values = dict(zip(differences, holm(list(map(paired_test, differences.values()))), strict=True))
    yield "| instruction | safe: refused with it alone, without it alone | p | unsafe: the same | p |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for way in ways:
        cells = []
        for side in SIDES:
            changed = [int((differences[way, side] == sign).sum()) for sign in (1, -1)]
            p_value = p_values[way, side]
            cells += [f"{changed[0]}, {changed[1]}", "< 0.0001" if p_value < 0.0001 else f"{p_value:.4f}"]
        yield f"| `{way}` | {' | '.join(cells)} |"


def main() -> None:
    """Read what is asked for, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measured", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.measured is not None:
        write_csv(VERDICTS, COLUMNS, measured(arguments.measured))
    rows = [row for _, row in read_table(VERDICTS)]
    print("\n".join((*table(counted(rows)), "", *paired_table(rows))))


if __name__ == "__main__":
    main()
