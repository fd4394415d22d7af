"""A checkpoint on sets of 2026: Defensive-Refusal-Bench-zh, and SteerBench-Work beside its leaderboard.

    python benchmarks/neighbours_2026.py                       # the tables, from what is kept
    python benchmarks/neighbours_2026.py --leaderboard FILE    # and the set's published rates beside them
    python benchmarks/neighbours_2026.py --measured FOLDER     # tasks of lm_eval's outputs read anew; kept

FILE is the leaderboard.json of the set. FOLDER holds, at any depth, lm_eval's outputs (--log_samples) of the
tasks of :data:`TASKS`. Kept are ids and labels, no prompts and no replies. ``read_label`` is the label by
reading, "" where the reply was not read; ``--measured`` keeps it where the label by rules is as it was.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shared import write_csv

from overbench_tasks.metrics import Rate
from overbench_tasks.tables import read_table

DATA = Path(__file__).resolve().parent / "data" / "neighbours_2026.csv.gz"
COLUMNS = ("task", "id", "prompt_label", "label", "read_label")
CHINESE = ("overbench_defensive_zh", "overbench_defensive_zh_unsafe")
STEERBENCH = "overbench_steerbench_work"
TASKS = (*CHINESE, STEERBENCH)
CHECKPOINT = "Qwen2.5-Coder-1.5B"

Row = Mapping[str, str]


def measured(folder: Path) -> list[dict[str, str]]:
    """The labels in lm_eval's sample logs; the latest log of each task counts."""
    read_before = {(row["task"], row["id"], row["label"]): row["read_label"] for row in kept()}
    rows = []
    for task in TASKS:
        logs = sorted(folder.rglob(f"samples_{task}_2*.jsonl"), key=lambda log: log.name)
        for _, sample in read_table(logs[-1]) if logs else ():
            verdict = json.loads(sample["filtered_resps"][0][0])
            row = {"task": task, "id": sample["doc"]["id"], "label": verdict["label"]}
            row["prompt_label"] = sample["doc"]["prompt_label"]
            row["read_label"] = read_before.get((task, row["id"], row["label"]), "")
            rows.append(row)
    return rows


def kept() -> list[Row]:
    """The rows of :data:`DATA`; none where there is no file."""
    return [row for _, row in read_table(DATA)] if DATA.is_file() else []


def chinese_table(rows: Sequence[Row]) -> Iterator[str]:
    """What the checkpoint refuses of either side of the Chinese set, and how labels agree with reading."""
    yield f"| Defensive-Refusal-Bench-zh, {CHECKPOINT} | replies | refused | unscored | read | labels agree |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for task, side in zip(CHINESE, ("to answer", "to refuse"), strict=True):
        replies = [row for row in rows if row["task"] == task]
        refused = _rate(replies, "refused")
        read = [row for row in replies if row["read_label"]]
        agree = sum(row["label"] == row["read_label"] for row in read)
        unscored = len(replies) - refused.n
        yield f"| {side} | {len(replies)} | {_percent(refused)} | {unscored} | {len(read)} | {agree} |"


def steerbench_table(rows: Sequence[Row], leaderboard: Path | None = None) -> Iterator[str]:
    """Held and overreach of the checkpoint, and of the published conditions where their file is named."""
    replies = [row for row in rows if row["task"] == STEERBENCH]
    if not replies:
        yield "SteerBench-Work: no replies are kept."
        return
    sides = {side: [row for row in replies if row["prompt_label"] == side] for side in ("safe", "unsafe")}
    held, overreach = _rate(sides["safe"], "refused"), _rate(sides["unsafe"], "complied")
    invalid = sum(row["label"] == "unscored" for row in replies)
    yield "| SteerBench-Work | scenarios | held | overreach | invalid replies |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    yield f"| {CHECKPOINT} | {len(replies)} | {_percent(held)} | {_percent(overreach)} | {invalid} |"
    yield from _published(leaderboard)


def _published(leaderboard: Path | None) -> Iterator[str]:
    """The rows of the set's leaderboard.json, by their rate of held actions."""
    if leaderboard is None:
        return
    rows = json.loads(leaderboard.read_text(encoding="utf-8"))["rows"]
    for row in sorted(rows, key=lambda row: float(row["over_refusal"].partition("%")[0])):
        name = f"{row['model']}, reasoning {row['reasoning']} (published)"
        scenarios = re.findall(r"/(\d+)\)", row["modal_accuracy"])
        rates = row["over_refusal"], row["under_refusal"]
        yield f"| {name} | {''.join(scenarios)} | {rates[0]} | {rates[1]} | |"


def _rate(rows: Sequence[Row], label: str) -> Rate:
    scored = [row for row in rows if row["label"] != "unscored"]
    return Rate(sum(row["label"] == label for row in scored), len(scored))


def _percent(rate: Rate) -> str:
    if not rate.n:
        return "–"
    return f"{100 * rate.value:.1f} % ({100 * rate.low:.1f}–{100 * rate.high:.1f}, n = {rate.n})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measured", type=Path, metavar="FOLDER")
    parser.add_argument("--leaderboard", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.measured:
        read_anew = measured(options.measured)
        tasks = {row["task"] for row in read_anew}
        write_csv(DATA, COLUMNS, [*(row for row in kept() if row["task"] not in tasks), *read_anew])
    print("\n".join((*chinese_table(kept()), "", *steerbench_table(kept(), options.leaderboard))))
