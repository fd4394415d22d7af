"""The picture and the rates of a real campaign whose limits draw, from what is kept of its cells.

    python benchmarks/campaign_picture.py                      # the table, and how far it is off
    python benchmarks/campaign_picture.py --picture FILE.png   # and the picture
    python benchmarks/campaign_picture.py --keep OUT           # of a run of campaign_real.py, its cells

The last line says how far the rates on XSTest are off: whoever made ``data/neighbour_outcomes`` asked
the same checkpoints all of its prompts, with most of the same system prompts and 48 new tokens.

Kept are lm-eval's outputs without prompts, replies and addresses: the settings of each cell, and the id and
the label of each prompt. Table and picture are the report's, made from them as from any logs.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from campaign_records import cells_of, parts

from overbench.campaign.campaign_folder import settings_in
from overbench.campaign.campaign_outputs import checkpoint_facts
from overbench.report.families import COLUMNS, Families, checkpoint_words
from overbench.report.figures import png
from overbench.report.report_inputs import Inputs, read_inputs
from overbench.report.scatter import Scatter
from overbench.report.sections.trade_off_section import trade_off_section
from overbench.report.stats.rates import osr
from overbench_tasks.metrics import Rate
from overbench_tasks.outcomes.logs import read_run
from overbench_tasks.outcomes.target_names import system_suffix
from overbench_tasks.tables import read_table

DATA: Final = Path(__file__).resolve().parent / "data"
RECORDS: Final = DATA / "campaign_drawn.jsonl.gz"
WHOLE: Final = DATA / "neighbour_outcomes" / "xstest.csv.gz"
SETS: Final = {
    "hard": "`overbench_hard`",
    "pairs": "`overbench_pairs`, harmless halves",
    "xstest_safe": "XSTest safe",
}
UNSAFE: Final = {"pairs": "`overbench_pairs`, counterparts", "xstest_unsafe": "XSTest unsafe"}
_KEPT: Final = (
    "version",
    "overbench_version",
    "overbench_rules_version",
    "overbench_release",
    "overbench_sample",
    "overbench_sample_seed",
    "overbench_asked_of",
    "overbench_prompts_sha256",
)
"""Of a task's metadata."""
_DATE: Final = "2026-11-23T00-00-00.000000"
_FAMILIES = "families.csv"


def keep(out: Path) -> None:
    """Write the records of a campaign's cells."""
    rows: list[dict[str, Any]] = [{"families": _families(out)}]
    for cell in cells_of(out).values():
        (log,) = cell.logs
        run = read_run(log)
        results = json.loads(run.results_file.read_text(encoding="utf-8"))
        config = results["configs"][run.task]
        kept_config = {name: config[name] for name in ("task", "generation_kwargs", "filter_list", "repeats")}
        kept_config["metadata"] = {name: run.metadata[name] for name in _KEPT if name in run.metadata}
        rows.append(
            {
                "name": cell.facts["name"],
                "results": {
                    "configs": {run.task: kept_config},
                    "n-samples": results["n-samples"],
                    "config": {"model": run.model, "model_args": {"model": run.model_args["model"]}},
                    "lm_eval_version": run.lm_eval_version,
                    "system_instruction": run.system_instruction,
                    "chat_template": "a template" if run.chat_template else None,
                },
                "labels": list(_labels(cell.rows())),
            }
        )
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    RECORDS.write_bytes(gzip.compress(text.encode(), mtime=0))


def _labels(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for identity, row in rows.items():
        facts = {name: row["doc"].get(name) for name in ("prompt_label", "category", "pair_id")}
        (verdict,) = map(json.loads, row["filtered_resps"][0])
        yield {"id": identity, **facts, "label": verdict["label"]}  # the reason has words of the reply


def read() -> Inputs:
    """The records, as the report reads logs: ids stand in place of prompts, and replies are empty."""
    families, *cells = [record for _, record in read_table(RECORDS)]
    aliases = set()
    with TemporaryDirectory() as folder:
        for record in cells:
            _write_log(Path(folder) / "cells" / record["name"], record)
            cell_parts, instruction = parts(record["name"]), record["results"]["system_instruction"]
            if instruction:
                target = cell_parts["target"]
                short = f"{target} +system:{cell_parts['system_prompt']}"
                aliases.add(f"{target}{system_suffix(instruction)}={short}@{target}")
        (Path(folder) / _FAMILIES).write_text(families["families"], encoding="utf-8")
        inputs = read_inputs([Path(folder) / "cells"], sorted(aliases))
        return replace(inputs, families=Families(Path(folder) / _FAMILIES))


def _families(out: Path) -> str:
    """What a campaign's targets say of themselves, as a table of families."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for checkpoint, facts in reversed(checkpoint_facts(settings_in(out).targets).items()):
        size = "" if math.isnan(facts.size) else facts.size
        pattern = f"^{re.escape(checkpoint_words(checkpoint))}$"
        table.writerow([pattern, facts.family, size, facts.released, facts.line])
    return text.getvalue()


def _write_log(folder: Path, record: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True)
    [task] = record["results"]["configs"]
    (folder / f"results_{_DATE}.json").write_text(json.dumps(record["results"]), encoding="utf-8")
    rows = [
        {
            "doc": {**row, "prompt": row["id"]},
            "resps": [[""]],
            "filtered_resps": [[json.dumps({"label": row["label"], "reason": ""})]],
            "filter": "rules",
        }
        for row in record["labels"]
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"samples_{task}_{_DATE}.jsonl").write_text(lines, encoding="utf-8")


def table(inputs: Inputs) -> Iterator[str]:
    """The lines of a Markdown table: refused, in percent, with the interval of the rate on all prompts."""
    columns = {
        title: osr(prompt_set.matrix)
        for prompt_set in inputs.sets
        for name, title in SETS.items()
        if name == prompt_set.name
    }
    columns |= {UNSAFE[prompt_set.name]: prompt_set.correct_refusals() for prompt_set in inputs.unsafe}
    yield f"| refused, % | {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * len(columns)}"
    for target in sorted({target for rates in columns.values() for target in rates}):
        yield f"| {target} | {' | '.join(_told(rates[target]) for rates in columns.values())} |"


def _told(rate: Rate) -> str:
    return f"{100 * rate.value:.0f} [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def beside_whole_sets(inputs: Inputs) -> str:
    """How far the rates on a hundred prompts of each side of XSTest are off those on all of them, where these
    are known, and how many of the intervals hold them."""
    safe = next(osr(prompt_set.matrix) for prompt_set in inputs.sets if prompt_set.name == "xstest_safe")
    unsafe = next(
        prompt_set.correct_refusals() for prompt_set in inputs.unsafe if prompt_set.name == "xstest_unsafe"
    )
    whole_rates, instructions = _whole_rates(), _instructions()
    pairs = []
    for side, rates in (("safe", safe), ("unsafe", unsafe)):
        for target, rate in rates.items():
            checkpoint, _, system = target.partition(" +system:")
            key = checkpoint, instructions[system or "none"], side
            if key in whole_rates:
                pairs.append((rate, whole_rates[key]))
    errors = [100 * abs(rate.value - whole) for rate, whole in pairs]
    held = sum(rate.low <= whole <= rate.high for rate, whole in pairs)
    return (
        f"{len(pairs)} of these rates are known on all prompts: the estimates are off by "
        f"{sum(errors) / len(errors):.1f} points on average, by {max(errors):.1f} at most, "
        f"and {held} of {len(pairs)} intervals hold them."
    )


def _instructions() -> dict[str, str]:
    """Name of a system prompt -> its text."""
    cells = [row for _, row in read_table(RECORDS) if "name" in row]
    return {parts(row["name"])["system_prompt"]: row["results"]["system_instruction"] or "" for row in cells}


def _whole_rates() -> dict[tuple[str, str, str], float]:
    """Checkpoint, system instruction and side of XSTest -> the share refused of all its prompts."""
    refused: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for _, row in read_table(WHOLE):
        key = row["checkpoint"].lower(), row["system_instruction"] or "", row["prompt_label"]
        refused[key].append(row["outcome"] == "refused")
    return {key: sum(outcomes) / len(outcomes) for key, outcomes in refused.items()}


def trade_off(inputs: Inputs) -> Scatter:
    """The report's picture of XSTest."""
    section = trade_off_section(inputs)
    pictures = section.pictures if section else ()
    [scatter] = (
        picture for picture in pictures if isinstance(picture, Scatter) and "xstest_unsafe" in picture.title
    )
    return scatter


def main() -> None:
    """Do what is asked for, and print the table and how far it is off."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, metavar="OUT")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.keep:
        keep(given.keep)
    inputs = read()
    print("\n".join(table(inputs)))
    print(beside_whole_sets(inputs))
    if given.picture:
        given.picture.write_bytes(png(trade_off(inputs)))


if __name__ == "__main__":
    main()
