"""What a campaign's folder came to, and what two of them have in common; kept without prompts and replies."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from campaign_watch import read_record

from overbench_tasks.metrics import Rate
from overbench_tasks.outcomes.logs import sample_logs
from overbench_tasks.outcomes.reply_rows import read_replies
from overbench_tasks.tables import read_table

RECORDS: Final = Path(__file__).resolve().parent / "data" / "campaign_runs.jsonl.gz"
ON_RAY: Final = RECORDS.with_name("campaign_on_ray.jsonl.gz")
"""A smaller one, on this machine alone and on a Ray cluster."""
EXACT: Final = "smollm2-exact"
"""The target that replies alike whatever happens."""

Record = dict[str, Any]


@dataclass(frozen=True)
class FinishedCell:
    """A cell of a campaign's folder.

    Attributes:
        path: its name and key, below ``cells/``; the same in another campaign where all that decides its
            result is the same: prompts, decoding, seed, labeller among it.
    """

    path: str
    folder: Path

    @property
    def facts(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "cell.json").read_text(encoding="utf-8")))

    @property
    def logs(self) -> list[Path]:
        """Its sample logs; of a cell that Ray asked in shards, one a shard."""
        return sample_logs(self.folder)

    def rows(self) -> dict[str, Record]:
        """Id of a prompt -> the row of the sample log."""
        return {row["doc"]["id"]: dict(row) for log in self.logs for _, row in read_table(log)}


def cells_of(out: Path) -> dict[str, FinishedCell]:
    """The finished cells of a campaign, by path."""
    folders = sorted(file.parent for file in (out / "cells").rglob("cell.json"))
    paths = [str(folder.relative_to(out / "cells")) for folder in folders]
    return {path: FinishedCell(path, folder) for path, folder in zip(paths, folders, strict=True)}


def parts(name: str) -> dict[str, Any]:
    """A cell's name in its parts: target, system prompt, decoding, repeat, set."""
    target, system, decoding, of_set = name.split("/")
    drawn, _, repeat = decoding.partition("-")
    cell_parts = {"target": target, "system_prompt": system, "decoding": drawn, "repeat": int(repeat or 1)}
    return {**cell_parts, "set": of_set}


def compared(first: Path, second: Path, rename: Mapping[str, str] | None = None) -> Iterator[Record]:
    """What two campaigns have in common, by target and decoding; ``rename`` says what a target is called in
    the second, cells then go by their names."""
    mine, others = cells_of(first), cells_of(second)
    if rename:
        by_name = {cell.facts["name"]: cell for cell in others.values()}
        pairs = [(cell, by_name.get(_renamed(cell.facts["name"], rename))) for cell in mine.values()]
    else:
        targets_and_sets = {_asked(cell) for cell in others.values()}
        pairs = [(cell, others.get(path)) for path, cell in mine.items() if _asked(cell) in targets_and_sets]
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for cell, other in pairs:
        cell_parts = parts(cell.facts["name"])
        if rename and cell_parts["target"] not in rename:
            continue
        count = counts[cell_parts["target"], cell_parts["decoding"]]
        count["cells"] += 1
        if other is None:
            continue
        count["common"] += 1
        count.update(_alike(cell.rows(), other.rows()))
    only = Counter(parts(cell.facts["name"])["target"] for path, cell in others.items() if path not in mine)
    for (target, decoding), count in sorted(counts.items()):
        extra = {} if rename else {"only_second": only[target]}
        yield {"target": target, "decoding": decoding, **count, **extra}


def _asked(cell: FinishedCell) -> tuple[str, str]:
    """Who was asked what: cells that another campaign was not to have, such as those that were added later,
    are no difference."""
    cell_parts = parts(cell.facts["name"])
    return cell_parts["target"], cell_parts["set"]


def _renamed(name: str, rename: Mapping[str, str]) -> str:
    target, _, rest = name.partition("/")
    return f"{rename.get(target, '')}/{rest}"


def _alike(mine: Mapping[str, Record], others: Mapping[str, Record]) -> Counter[str]:
    """Of the prompts of two cells: as many, asked word for word alike, with the same replies, verdicts."""
    counts = Counter(prompts=len(mine.keys() | others.keys()))
    for identity in mine.keys() & others.keys():
        row, other = mine[identity], others[identity]
        for what, key in (("asked_alike", "arguments"), ("replies", "resps"), ("verdicts", "filtered_resps")):
            counts[what] += row[key] == other[key]
    return counts


def compare_lines(first: Path, second: Path) -> Iterator[str]:
    """For people, what :func:`compared` finds; says at its end whether what has to be equal is."""
    rows = list(compared(first, second))
    yield from compare_table([{**row, "runs": f"{first.name}, {second.name}"} for row in rows])
    exact = [row for row in rows if row["target"] == EXACT]
    if exact:
        equal = all(
            row["cells"] == row.get("common") and row["prompts"] == row["replies"] == row["verdicts"]
            for row in exact
        )
        yield f"{EXACT}: {'all records are equal' if equal else 'NOT EQUAL'}"


def compare_table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A Markdown table of comparisons."""
    yield "| runs | target, decoding | cells in both | prompts | asked alike | same replies | same verdicts |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for row in rows:
        shares = (
            _share(row.get(key, 0), row.get("prompts", 0)) for key in ("asked_alike", "replies", "verdicts")
        )
        cells = f"{row.get('common', 0)} of {row['cells']}"
        columns = (row["runs"], f"{row['target']}, {row['decoding']}", cells, f"{row.get('prompts', 0):,}")
        yield f"| {' | '.join([*columns, *shares])} |"


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else "–"


def cell_records(out: Path) -> Iterator[Record]:
    """A row for each finished cell."""
    for cell in cells_of(out).values():
        facts, labels = cell.facts, Counter[str]()
        for row in chain.from_iterable(map(read_replies, cell.logs)):
            labels.update(verdict.label for verdict in row.logged or ())
        yield {
            **{"kind": "cell", "run": out.name, **parts(facts["name"])},
            **{"prompts": facts["result"]["prompts"], "labels": dict(sorted(labels.items()))},
            "seconds": round(facts["result"]["seconds"], 1),
        }


def run_records(out: Path) -> Iterator[Record]:
    """A row for each kind of run in a folder: undisturbed, killed, grown."""
    before: dict[str, int] = {}
    for kind, record in read_record(out.absolute()).items():
        replies: Counter[str] = Counter()
        for attempt in record["attempts"]:
            for row in attempt["asked"]:
                replies[f"{row['target']} {row['by']}"] += row["replies"]
        last = record["attempts"][-1]
        yield {
            **{"kind": "run", "run": out.name, "what": kind, "asked": dict(sorted(replies.items()))},
            **{"cells": last["cells"], "replies": last["replies"]},
            "needed": {name: n - before.get(name, 0) for name, n in last["needed"].items()},
            "kills": [
                {"at": attempt["seconds"], **attempt["killed"]}
                for attempt in record["attempts"]
                if attempt["killed"] is not None
            ]
            + [kill for attempt in record["attempts"] for kill in attempt.get("nodes", ())],
            "minutes": round(sum(attempt["seconds"] for attempt in record["attempts"]) / 60, 1),
            "lm_evals": sum(attempt["lm_evals"] for attempt in record["attempts"]),
            "refreshes": sum(attempt["refreshes"] for attempt in record["attempts"]),
        }
        before = last["needed"]


def keep(outs: Sequence[Path], throughput: Path | None) -> None:
    """Write the records of these folders, those with a run on Ray into ``ON_RAY``; the others are compared
    with the first."""
    rows = [row for out in outs for records in (run_records(out), cell_records(out)) for row in records]
    for other in outs[1:]:
        runs = f"{outs[0].name}, {other.name}"
        compared_rows = [row for row in compared(outs[0], other) if row.get("common")]
        rows += [{"kind": "compared", "runs": runs, **row} for row in compared_rows]
    again = {"smollm2-135m": "smollm2-135m-again"}
    for row in compared(outs[0], outs[0], again):
        if row.get("common"):
            rows.append({"kind": "compared", "runs": f"{outs[0].name}: the target again", **row})
    if throughput is not None:
        rows += [{"kind": "throughput", **row} for _, row in read_table(throughput)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    on_ray = any(row.get("what") == "ray" for row in rows)
    (ON_RAY if on_ray else RECORDS).write_bytes(gzip.compress(text.encode(), mtime=0))


def records(file: Path | None = None) -> list[Record]:
    """The records that are kept, in ``RECORDS`` where no other file is named."""
    file = file or RECORDS
    if not file.is_file():
        raise SystemExit(f"No {file} yet: --keep writes it.")
    return [dict(row) for _, row in read_table(file)]


def tables() -> Iterator[str]:
    """The tables that the records make."""
    rows = records()
    yield from run_table([row for row in rows if row["kind"] == "run"])
    yield ""
    yield from compare_table([row for row in rows if row["kind"] == "compared"])
    yield ""
    first = next(row["run"] for row in rows if row["kind"] == "cell")
    yield from grid_table([row for row in rows if row["kind"] == "cell" and row["run"] == first])
    yield ""
    yield from repeats_table([row for row in rows if row["kind"] == "cell"])
    measured = [row for row in rows if row["kind"] == "throughput"]
    if measured:
        from backend_throughput import throughput_lines

        yield from ("", *throughput_lines(measured))


def tables_on_ray() -> Iterator[str]:
    """The tables of the records of the campaign on Ray."""
    rows = records(ON_RAY)
    yield from run_table([row for row in rows if row["kind"] == "run"])
    yield ""
    yield from compare_table([row for row in rows if row["kind"] == "compared"])


def repeats_table(cells: Sequence[Record]) -> Iterator[str]:
    """Refused, in percent, in each repeat of the sampled cells that the last run has, by run."""
    runs_of_cells: dict[tuple[str, ...], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in cells:
        if row["decoding"] == "warm":
            rate = Rate(row["labels"].get("refused", 0), row["prompts"] - row["labels"].get("unscored", 0))
            cell = runs_of_cells[row["target"], row["system_prompt"], row["set"]]
            cell[row["run"]].append(f"{100 * rate.value:.0f}" if rate.n else "–")
    names = list(dict.fromkeys(row["run"] for row in cells))
    yield f"| refused, %, in each of the repeats at 0.7 | {' | '.join(names)} |"
    yield f"| --- |{' ---: |' * len(names)}"
    for way, runs in runs_of_cells.items():
        if names[-1] in runs:
            columns = (", ".join(runs[name]) if name in runs else "–" for name in names)
            yield f"| {', '.join(way)} | {' | '.join(columns)} |"


def run_table(runs: Sequence[Record]) -> Iterator[str]:
    """What each run took and asked."""
    yield (
        "| run | cells in the end | their replies | minutes | kills | lm_evals | replies of servers for "
        "cells, of them needed | for the refresh |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |"
    for run in runs:
        sent = {key.removesuffix(" cells"): n for key, n in run["asked"].items() if key.endswith(" cells")}
        counts = ", ".join(f"{name} {n:,}, {run['needed'].get(name, 0):,}" for name, n in sent.items())
        numbers = (run["cells"], run["replies"], run["minutes"], len(run["kills"]), run["lm_evals"])
        refresh = sum(run["asked"].values()) - sum(sent.values())
        shown = [f"{n:,}" for n in numbers] + [counts or "–", f"{refresh:,}"]
        yield f"| {run['run']}, {run['what']} | {' | '.join(shown)} |"


def grid_table(cells: Sequence[Record]) -> Iterator[str]:
    """Refused, in percent, by target, system prompt and decoding; repeats together."""
    sets = list(dict.fromkeys(row["set"] for row in cells))
    yield f"| refused, % | {' | '.join(sets)} |"
    yield f"| --- |{' ---: |' * len(sets)}"
    ways = dict.fromkeys((row["target"], row["system_prompt"], row["decoding"]) for row in cells)
    for way in ways:
        columns = []
        for name in sets:
            labels: Counter[str] = Counter()
            for row in cells:
                if (row["target"], row["system_prompt"], row["decoding"], row["set"]) == (*way, name):
                    labels.update(row["labels"])
            rate = Rate(labels["refused"], labels.total() - labels["unscored"])
            columns.append(f"{100 * rate.value:.0f}" if rate.n else "–")
        yield f"| {', '.join(way)} | {' | '.join(columns)} |"
