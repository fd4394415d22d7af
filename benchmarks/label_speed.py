"""Print how many replies a second the rules read, beside prefix matching; and how fast a rescore is.

    python benchmarks/label_speed.py
    python benchmarks/label_speed.py --rescore [ROWS]

The first: one core, processor time; the best of several rounds, because other work only ever slows a round
down. The second: ``overbench rescore --labeller rules`` and its memory, on 450,000 made-up rows where no
number is given, the size of the authors' set; about 2 KB a row in a temporary folder. Its baseline, timed in
the same run on a sample of the rows, is the loop that anyone would write first: one process, ``json.loads``,
``label_reply``, ``json.dumps``.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from shared import make_replies, peak_megabytes, sample, timed

from overbench.review.rescore import rescore_file
from overbench_tasks.refusal import label_reply
from overbench_tasks.refusal.stock_phrases import stock_phrase

WORKERS = 2
SAMPLE = 20_000


def per_second(function: Callable[[str], object], replies: list[str], rounds: int = 15) -> float:
    """How many replies a second ``function`` takes, in the best round."""
    seconds = []
    for _ in range(rounds):
        started = time.process_time()
        for reply in replies:
            function(reply)
        seconds.append(time.process_time() - started)
    return len(replies) / min(seconds)


def label() -> None:
    """Print both speeds and their ratio."""
    replies = make_replies(3000)
    mean = sum(map(len, replies)) / len(replies)
    rules, prefixes = per_second(label_reply, replies), per_second(stock_phrase, replies)
    print(f"{len(replies)} made-up replies, {mean:.0f} characters on average, one core")
    print(f"label_reply      {rules:>10,.0f} replies/s")
    print(f"prefix matching  {prefixes:>10,.0f} replies/s  ({prefixes / rules:.1f} times as fast)")


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


def rescore(count: int) -> None:
    """Print seconds and memory."""
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


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rescore", type=int, nargs="?", const=450_000, metavar="ROWS")
    rows = parser.parse_args().rescore
    rescore(rows) if rows else label()


if __name__ == "__main__":
    main()
