"""One refresh with an earlier template and one with ``boundary``: what readers and the target say of both.

    python benchmarks/refresh_templates.py --run --target TYPE:ARGUMENTS --writer model=NAME,base_url=URL \\
            --out DIR
    python benchmarks/refresh_templates.py --keep DIR --checkpoint NAME --sheet SHEET.jsonl
                                                        # records of this target, and what readers get
    python benchmarks/refresh_templates.py --votes VOTES.csv                # adds their votes to the records
    python benchmarks/refresh_templates.py                                  # the tables, from the records

Both runs have the same seeds (the list ``boundary`` and the first set), target, labeller, random seed and
settings (``refresh_templates.yaml``). Each labels its seeds, trains its detector and writes one round. The
target is named as for ``overbench rewrite --targets``, the writer as for ``--judge``, or by batch files
(``--writer generator=batch:DIR``): requests are then in a folder for each template, exit code 75 says that
replies are missing, and the same command goes on. ``--earlier opening`` compares with the template for small
writers.

The records (data/refresh_templates.jsonl.gz) hold a row for each candidate that is a prompt at all: the
checkpoint that was the target, template, prompt, the filter that turned it away and why, what the target did,
and the votes of readers. A sheet is blind: the accepted prompts that nobody has read, shuffled, with
neither template nor label. Votes are a table with a row for each reading: ``id``, ``verdict`` (harmless,
ambiguous, harmful), ``natural`` and ``difficulty`` (1 to 5),
``alibi`` (0 or 1).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

from refresh_writers import DATA, made_by
from rewrite_real import share
from shared import FIRST_SET

from generators.adversary.adversary import WriterSettings
from generators.prompt_filters.recipe import RECIPE_CHECKS
from generators.rewrite.rewrite_settings import target_from_words
from overbench_tasks.chat.endpoint import settings_from_words
from overbench_tasks.prompts import prompt_id
from overbench_tasks.tables import read_table

RECORDS: Final = DATA / "refresh_templates.jsonl.gz"
SETTINGS: Final = Path(__file__).with_suffix(".yaml")
VERDICTS: Final = ("harmless", "ambiguous", "harmful")
SCORES: Final = ("natural", "difficulty", "alibi")

Record = Mapping[str, Any]


def commands(target: str, writer: str, earlier: str, out: Path) -> Iterator[list[str]]:
    """The two calls of ``overbench refresh``, one for each template."""
    target_settings = target_from_words(target)
    endpoint = settings_from_words(WriterSettings, writer, "--writer").model_dump(exclude_unset=True)
    generator = endpoint.pop("generator", "openai")
    words = ["--model", target_settings["model"], "--model_args", target_settings["model_args"]]
    words += ["--seeds", "boundary", "--seeds", str(FIRST_SET)]
    words += [word for name, value in endpoint.items() for word in ("--set", f"adversary.{name}={value}")]
    for form in (earlier, "boundary"):
        own = ["--run_dir", str(out / form), "--set", f"adversary.form={form}"]
        if generator.startswith("batch:"):
            own += ["--set", f"adversary.generator={generator}/{form}"]
        yield [sys.executable, "-m", "overbench.cli", "refresh", str(SETTINGS), *words, *own]


def measured(folder: Path, checkpoint: str) -> Iterator[dict[str, Any]]:
    """The candidates of both runs, which nobody has read yet."""
    runs = {run.name: run for run in sorted(folder.iterdir()) if (run / "run.sqlite").is_file()}
    for row in made_by(runs):
        kept = {name: row[name] for name in ("prompt", "gate", "reason", "target", "feature")}
        origin = {"checkpoint": checkpoint, "template": row["run"], "id": prompt_id(row["prompt"])}
        yield {**origin, **kept, "votes": []}


def records() -> list[Record]:
    """The rows that are kept."""
    return [row for _, row in read_table(RECORDS)]


def keep(rows: Iterable[Record]) -> None:
    """Write the records; the same rows give the same bytes."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    RECORDS.write_bytes(gzip.compress(text.encode(), mtime=0))


def sheet(rows: Sequence[Record]) -> list[dict[str, str]]:
    """What readers get: each accepted prompt that nobody has read, once, shuffled."""
    unread = [row for row in rows if not row["gate"] and not row["votes"]]
    prompts = sorted({(row["id"], row["prompt"]) for row in unread})
    random.Random("refresh_templates").shuffle(prompts)
    return [{"id": identity, "prompt": prompt} for identity, prompt in prompts]


def with_votes(rows: Sequence[Record], votes: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """The records with these votes beside those that they have.

    Raises:
        ValueError: a vote on no accepted prompt, or one that is none.
    """
    of_prompt: dict[str, list[dict[str, Any]]] = defaultdict(list)
    accepted = {row["id"] for row in rows if not row["gate"]}
    for vote in votes:
        if vote["id"] not in accepted or vote["verdict"] not in VERDICTS:
            raise ValueError(
                f"Expected a vote on a prompt of the sheet, {' or '.join(VERDICTS)}; got {dict(vote)}"
            )
        scores = {name: float(vote[name]) for name in SCORES}
        of_prompt[vote["id"]].append({"verdict": vote["verdict"], **scores})
    for row in rows:
        yield {**row, "votes": [*row["votes"], *of_prompt.get(row["id"], [])] if not row["gate"] else []}


def filters_table(rows: Sequence[Record]) -> Iterator[str]:
    """By target and template: what the filters turned away, and what the target did with the rest."""
    yield (
        "| target | template | candidates | turned away: by the recipe | other form | novelty | presence | "
        "detector | accepted | of these refused by the target |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for (checkpoint, template), own in _by_run(rows).items():
        gates = Counter(row["gate"] for row in own)
        by_recipe = sum(row["gate"] == "form" and row["reason"] in RECIPE_CHECKS for row in own)
        accepted = [row for row in own if not row["gate"]]
        cells = [len(own), by_recipe, gates["form"] - by_recipe]
        cells += [gates[name] for name in ("novelty", "presence", "detector")] + [len(accepted)]
        yield f"| {checkpoint} | `{template}` | {' | '.join(map(str, cells))} | {_refused(accepted)} |"


def readings_table(rows: Sequence[Record]) -> Iterator[str]:
    """By target and template: what the readers say of the accepted prompts that they have read."""
    yield (
        "| target | template | read | harmless to all | harmful to any | of the harmless refused | natural | "
        "difficulty | difficulty of 3 or more | alibi to most |"
    )
    yield "| --- | --- | ---: | --- | ---: | --- | ---: | ---: | --- | --- |"
    for (checkpoint, template), own in _by_run(rows).items():
        read = [row for row in own if row["votes"]]
        if not read:
            continue
        harmless = [row for row in read if {vote["verdict"] for vote in row["votes"]} == {"harmless"}]
        harmful = sum(any(vote["verdict"] == "harmful" for vote in row["votes"]) for row in read)
        natural, difficulty, alibi = ([_mean(row, name) for row in read] for name in SCORES)
        cells = [str(len(read)), share(len(harmless), len(read)), str(harmful), _refused(harmless)]
        cells += [f"{mean(natural):.2f}", f"{mean(difficulty):.2f}"]
        cells += [share(sum(value >= 3 for value in difficulty), len(read))]
        cells += [share(sum(value > 0.5 for value in alibi), len(read))]
        yield f"| {checkpoint} | `{template}` | {' | '.join(cells)} |"


def _by_run(rows: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    by_run: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        by_run.setdefault((row["checkpoint"], row["template"]), []).append(row)
    return by_run


def _refused(rows: Sequence[Record]) -> str:
    return share(sum(row["target"] == "refused" for row in rows), len(rows))


def _mean(row: Record, name: str) -> float:
    return mean(float(vote[name]) for vote in row["votes"])


def main() -> None:
    """Run, keep, or print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", action="store_true", help="run both refreshes")
    parser.add_argument("--target", help="TYPE:ARGUMENTS of the target")
    parser.add_argument("--writer", help="model=NAME,base_url=URL of the writer")
    parser.add_argument("--earlier", default="free", choices=["free", "opening"])
    parser.add_argument("--out", type=Path, help="where the runs go")
    parser.add_argument("--keep", type=Path, help="the folder of both runs: writes the records")
    parser.add_argument("--checkpoint", help="the target of these runs, as the tables call it")
    parser.add_argument("--sheet", type=Path, help="write what readers get, as JSON lines")
    parser.add_argument("--votes", type=Path, action="append", default=[], help="a table of votes; repeated")
    given = parser.parse_args()
    if given.run:
        calls = commands(given.target, given.writer, given.earlier, given.out)
        # Both are begun even where the first waits for batch files, so that all requests are there at once.
        raise SystemExit(max([subprocess.run(command, check=False).returncode for command in calls]))
    if given.keep:
        others = (row for row in records() if row["checkpoint"] != given.checkpoint)
        keep([*others, *measured(given.keep, given.checkpoint)])
    for file in given.votes:
        keep(list(with_votes(records(), (row for _, row in read_table(file)))))
    rows = records()
    if given.sheet:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in sheet(rows))
        given.sheet.write_text("".join(lines), encoding="utf-8")
    print("\n".join([*filters_table(rows), "", *readings_table(rows)]))


if __name__ == "__main__":
    main()
