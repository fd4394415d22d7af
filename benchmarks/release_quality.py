"""Print how varied the prompts of a release are, beside those of other sets, and draw prompts to be read.

    python benchmarks/release_quality.py RELEASE [--against XSTest=prompts.csv ...]
    python benchmarks/release_quality.py RELEASE --sample 200 --seed 0 --out sheet.csv
    python benchmarks/release_quality.py --read sheet.csv

RELEASE is a release's folder or a prompt file. The figures are those of ``overbench diversity``
(:mod:`overbench.diversity.diversity` says what each is).

The reading sheet holds id, prompt and an empty column ``benign``, and nothing that could lead its reader,
neither category nor model. Write ``yes`` or ``no``; ``--read`` reports the share of benign prompts among
those answered, and lists the rest.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from overbench.diversity.diversity import DiversitySettings, describe, read_sets
from overbench_tasks.metrics import wilson_interval
from overbench_tasks.prompts import Row, read_prompts
from overbench_tasks.prompts.sources import source_file

COLUMNS = ("id", "prompt", "benign")
ANSWERS = {"yes": True, "y": True, "1": True, "no": False, "n": False, "0": False}


def write_sheet(rows: Sequence[Row], size: int, seed: int, out: Path) -> int:
    """Write a reading sheet of prompts drawn at random; returns how many.

    Raises:
        FileExistsError: there is one already, perhaps filled in.
    """
    drawn = random.Random(seed).sample(list(rows), min(size, len(rows)))
    with out.open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows((row["id"], row["prompt"], "") for row in drawn)
    return len(drawn)


def reading_report(file: Path) -> str:
    """Of a sheet that was filled in: the benign share with its 95 % Wilson interval, and the other prompts.

    Raises:
        ValueError: another column layout, or an answer that is none of :data:`ANSWERS`.
    """
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        if not set(COLUMNS) <= set(reader.fieldnames or ()):
            raise ValueError(f"{file}: expected the columns {', '.join(COLUMNS)}, got {reader.fieldnames}.")
        rows = list(reader)
    answers = [(row["benign"] or "").strip().casefold() for row in rows]
    for row, answer in zip(rows, answers, strict=True):
        if answer not in ("", *ANSWERS):
            raise ValueError(
                f"{file}, id {row['id']}: expected yes or no in 'benign', got {row['benign']!r}."
            )
    rest = [row for row, answer in zip(rows, answers, strict=True) if ANSWERS.get(answer) is False]
    n = len(rows) - answers.count("")
    benign = n - len(rest)
    low, high = wilson_interval(benign, n)
    share = f"{benign / n:.1%} [{low:.1%}, {high:.1%}]" if n else "none answered"
    read_prompts = [f"benign: {benign} of {n}: {share}; {len(rows) - n} not answered"]
    return "\n".join([*read_prompts, *(f"- {row['id']}: {' '.join(row['prompt'].split())}" for row in rest)])


def main(words: Sequence[str] | None = None) -> None:
    """Print the table, write a sheet, or report on one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("release", type=Path, nargs="?")
    parser.add_argument("--against", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, help="write a reading sheet of so many prompts to --out")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--read", type=Path, help="report on a sheet that was filled in")
    args = parser.parse_args(words)
    if args.read is not None:
        print(reading_report(args.read))
    elif args.release is None or (args.sample is None) != (args.out is None):
        parser.error("expected RELEASE, RELEASE --sample N --out FILE.csv, or --read FILE.csv")
    elif args.out is not None:
        n = write_sheet(read_prompts(source_file(str(args.release))), args.sample, args.seed, args.out)
        print(f"{n} prompts in {args.out}: write yes or no under 'benign', then --read {args.out}")
    else:
        sets = read_sets([str(args.release), *args.against])
        print("\n".join(describe(sets, DiversitySettings(seed=args.seed)).lines()))


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(str(error))
