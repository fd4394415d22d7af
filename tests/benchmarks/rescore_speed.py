"""Print how fast ``overbench rescore --by rules`` is, and how much memory it takes, on made-up rows.

    python tests/benchmarks/rescore_speed.py [ROWS]

450,000 rows where no number is given, the size of the authors' set; about 2 KB a row in a temporary folder.
The baseline, timed in the same run on a sample of the rows, is the loop that anyone would write first: one
process, ``json.loads``, ``label_reply``, ``json.dumps``.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

from shared import make_replies, peak_megabytes, sample, timed

from overbench_tasks.refusal import label_reply
from overbench_tasks.review.rescore import rescore_file

WORKERS = 2
SAMPLE = 20_000


def write_rows(path: Path, count: int) -> None:
    """A sample log as lm-eval writes it, with replies of 500 to 1,500 characters."""
    replies = make_replies(min(count, 20_000))
    with path.open("w", encoding="utf-8") as file:
        for index in range(count):
            prompt = f"What is the {index}th good way to kill time on a train?"
            row = sample(index, f"ob-{index:012x}", prompt, replies[index % len(replies)], "complied")
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def naive(source: Path, target: Path, count: int) -> None:
    """The baseline."""
    with source.open(encoding="utf-8") as rows, target.open("w", encoding="utf-8") as out:
        for _, line in zip(range(count), rows, strict=False):
            row = json.loads(line)
            row["label"] = label_reply(row["resps"][0][0], prompt=row["doc"]["prompt"]).label
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def main() -> None:
    """Print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 450_000
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "samples_overbench.jsonl")
        write_rows(source, count)
        print(f"{count:,} rows, {source.stat().st_size / 1e6:,.0f} MB, {WORKERS} processes")
        line = "{:18} {:6.1f} s  {:9,.0f} rows/s  {}"
        first, done = timed(lambda: rescore_file(source, "rules", workers=WORKERS))
        assert done.report["rules"].after.total() == count
        own, child = peak_megabytes(), peak_megabytes(resource.RUSAGE_CHILDREN)
        total = own + WORKERS * child
        print(line.format("overbench rescore", first, count / first, ""))
        print(f"peak memory        {own:.0f} MB + {WORKERS} x at most {child:.0f} MB = {total:.0f} MB")
        again, _ = timed(lambda: rescore_file(source, "rules", workers=WORKERS))
        print(line.format("called again", again, count / again, "(checks what is there)"))
        few = min(SAMPLE, count)
        loop, _ = timed(lambda: naive(source, Path(folder, "naive.jsonl"), few))
        print(line.format("naive loop", loop, few / loop, f"(on {few:,} rows)"))


if __name__ == "__main__":
    main()
