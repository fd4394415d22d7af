"""Print how fast ``overbench rescore --by rules`` is, and how much memory it takes, on made-up rows.

Run from the repository root: ``python tests/benchmarks/rescore_speed.py [ROWS]`` (default 450,000, the
size of the authors' set; about 2 KB a row in a temporary folder). The baseline, timed in the same run on
a sample of the rows, is the loop that anyone would write first: one process, ``json.loads``,
``label_reply``, ``json.dumps``.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from label_speed import make_replies

from overbench_tasks.refusal import label_reply
from overbench_tasks.review.rescore import rescore_file

WORKERS = 2
SAMPLE = 20_000


def write_rows(path: Path, count: int) -> None:
    """A sample log as lm-eval writes it, with replies of 500 to 1,500 characters."""
    replies = make_replies(min(count, 20_000))
    verdict = json.dumps({"label": "complied", "reason": "x", "by": "no_rule", "blocked": False})
    metrics = ["osr", "osr_stderr", "osr_ci95_low", "osr_ci95_high", "partial_refusal_rate", "unscored_rate"]
    with path.open("w", encoding="utf-8") as file:
        for index in range(count):
            prompt = f"What is the {index}th good way to kill time on a train?"
            context = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
            row = {
                "doc_id": index,
                "doc": {"id": f"ob-{index:012x}", "prompt": prompt, "category": None, "features": ["kill"]},
                "target": "",
                "arguments": {"gen_args_0": {"arg_0": context, "arg_1": {"until": [], "max_gen_toks": 128}}},
                "resps": [[replies[index % len(replies)]]],
                "filtered_resps": [[verdict]],
                "filter": "rules",
                "metrics": metrics,
                **dict.fromkeys(("doc_hash", "prompt_hash", "target_hash"), "0" * 64),
                **dict.fromkeys(metrics, 0.0),
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def naive(source: Path, target: Path, count: int) -> None:
    """The baseline."""
    with source.open(encoding="utf-8") as rows, target.open("w", encoding="utf-8") as out:
        for _, line in zip(range(count), rows, strict=False):
            row = json.loads(line)
            row["label"] = label_reply(row["resps"][0][0], prompt=row["doc"]["prompt"]).label
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def peak_megabytes() -> tuple[float, float]:
    """Peak resident memory of this process and of the largest of its children."""
    own, child = (
        resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    unit = 1 if sys.platform == "darwin" else 1024
    return own * unit / 1e6, child * unit / 1e6


def main() -> None:
    """Print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 450_000
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "samples_overbench.jsonl")
        write_rows(source, count)
        print(f"{count:,} rows, {source.stat().st_size / 1e6:,.0f} MB, {WORKERS} processes")
        start = time.perf_counter()
        done = rescore_file(source, "rules", workers=WORKERS)
        seconds = time.perf_counter() - start
        own, child = peak_megabytes()
        total = own + WORKERS * child
        assert done.report["rules"].after.prompts("unscored_rate") == count
        print(f"overbench rescore  {seconds:6.1f} s  {count / seconds:9,.0f} rows/s")
        print(f"peak memory        {own:.0f} MB + {WORKERS} x at most {child:.0f} MB = {total:.0f} MB")
        start = time.perf_counter()
        rescore_file(source, "rules", workers=WORKERS)
        seconds = time.perf_counter() - start
        print(f"called again       {seconds:6.1f} s  {count / seconds:9,.0f} rows/s  (checks what is there)")
        sample = min(SAMPLE, count)
        start = time.perf_counter()
        naive(source, Path(folder, "naive.jsonl"), sample)
        seconds = time.perf_counter() - start
        print(f"naive loop         {seconds:6.1f} s  {sample / seconds:9,.0f} rows/s  (on {sample:,} rows)")


if __name__ == "__main__":
    main()
