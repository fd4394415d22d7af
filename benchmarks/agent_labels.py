"""Do the outcomes that rules tell from agents' replies agree with a reader?

    python benchmarks/agent_labels.py                     # the tables, from what is kept
    python benchmarks/agent_labels.py --make LOG... > SHEET
    python benchmarks/agent_labels.py --add SHEET VOTES   # keeps what a reader said of a sheet

LOG is a sample log of ``overbench_agent``, or a folder of lm_eval's with such logs. A sheet is JSONL: a row
for each of ``--count`` replies (200), drawn at random and as evenly as there are enough over the outcomes by
rules, with the messages, the action that was asked for and the reply, and without the outcome by rules. What
the provider withheld is left out, since no text tells it. VOTES is a table with ``model``, ``id`` and
``outcome`` (acted, other_action, asked, declined, blocked, invalid), by reading.

Kept in ``data/agent_labels.csv.gz`` are ids, outcomes and the SHA-256 of the reply, no prompts and no
replies. ``outcome_by_rules`` is by the rules of the day of ``--add``. Since the draw is even, the share of
an outcome is no rate, and recall is that of the replies drawn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

from shared import write_csv

from overbench_tasks.agents.actions import judge_action
from overbench_tasks.agents.scenarios import scenario_of
from overbench_tasks.errors import OverbenchError
from overbench_tasks.metrics import Rate
from overbench_tasks.outcomes.logs import sample_logs
from overbench_tasks.outcomes.reply_rows import read_replies
from overbench_tasks.prompts.conversations import messages_of
from overbench_tasks.records import ACTION_OUTCOMES
from overbench_tasks.tables import read_table
from overbench_tasks.text import encodable

DATA: Final = Path(__file__).parent / "data" / "agent_labels.csv.gz"
COLUMNS: Final = ("id", "model", "outcome_by_rules", "outcome_by_reading", "reply_hash")
MEASURED: Final = ("asked", "declined", "invalid", "other_action", "acted")

Row = Mapping[str, str]


def sheet(logs: Iterable[Path], count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows for a reader: ``count`` replies, or as many as there are; of a model and a scenario one.

    Raises:
        OverbenchError: no log, or a log of another task.
    """
    files = list(chain.from_iterable(sample_logs(log) if log.is_dir() else [log] for log in logs))
    if not files:
        raise OverbenchError("Expected sample logs of overbench_agent (lm_eval --log_samples), found none.")
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    used: set[tuple[str, str]] = set()
    for file in files:
        for reply_row in read_replies(file):
            if "scenario" not in reply_row.doc:
                raise OverbenchError(f"{file}: expected a sample log of overbench_agent. Leave it out.")
            model, outcome = file.parent.name, reply_row.actions[0]
            if outcome == "blocked" or (model, reply_row.id) in used:
                continue
            used.add((model, reply_row.id))
            scenario = scenario_of(reply_row.doc)
            groups[outcome].append(
                {
                    "model": model,
                    "id": reply_row.id,
                    "messages": messages_of(reply_row.doc),
                    "action": {"tool": scenario.action.tool, "arguments": scenario.action.arguments},
                    "reply": reply_row.replies[0],
                    "scenario": reply_row.doc["scenario"],
                }
            )
    draw = random.Random(seed)
    for group in groups.values():
        draw.shuffle(group)
    evenly = chain.from_iterable(zip_longest(*(groups[name] for name in sorted(groups))))
    drawn = [row for row in evenly if row is not None][:count]
    draw.shuffle(drawn)
    return drawn


def labelled(sheet_file: Path, votes_file: Path) -> Iterator[dict[str, str]]:
    """The rows of :data:`COLUMNS` for the rows of a sheet that a reader gave an outcome.

    Raises:
        OverbenchError: an unknown outcome, a vote on a reply that is not in the sheet, or none at all.
    """
    votes: dict[tuple[str, str], str] = {}
    for where, vote in read_table(votes_file):
        if vote.get("outcome") not in ACTION_OUTCOMES:
            raise OverbenchError(
                f"{where}: expected an 'outcome' out of {', '.join(ACTION_OUTCOMES)}, got "
                f"{vote.get('outcome')!r}. Correct the vote."
            )
        votes[str(vote.get("model")), str(vote.get("id"))] = str(vote["outcome"])
    rows = {(str(row["model"]), str(row["id"])): row for _, row in read_table(sheet_file)}
    if not votes or (strangers := votes.keys() - rows.keys()):
        problem = f"found {min(strangers)}" if votes else "found none"
        raise OverbenchError(
            f"Expected votes in {votes_file} on replies of {sheet_file} by their model and id, {problem}. "
            "Give the sheet that was read."
        )
    for (model, identity), vote in votes.items():
        row = rows[model, identity]
        reply = str(row["reply"])
        yield {
            "id": identity,
            "model": model,
            "outcome_by_rules": judge_action(reply, scenario_of(row)).outcome,
            "outcome_by_reading": vote,
            "reply_hash": hashlib.sha256(encodable(reply).encode()).hexdigest(),
        }


def kept() -> list[Row]:
    """The rows of :data:`DATA`; none where there is no file."""
    return [row for _, row in read_table(DATA)] if DATA.is_file() else []


def confusion_table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of a Markdown table: outcomes by reading (rows) and by rules (columns)."""
    counts = Counter((row["outcome_by_reading"], row["outcome_by_rules"]) for row in rows)
    yield f"| by reading, and by rules: | {' | '.join(ACTION_OUTCOMES)} |"
    yield f"| --- |{' ---: |' * len(ACTION_OUTCOMES)}"
    for reading in ACTION_OUTCOMES:
        yield f"| {reading} | {' | '.join(str(counts[reading, rules]) for rules in ACTION_OUTCOMES)} |"


def quality_table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of a Markdown table: precision and recall of each outcome that text tells, in percent."""
    yield "| outcome | precision, % | recall, % |"
    yield "| --- | ---: | ---: |"
    for outcome in MEASURED:
        by_rules = [row for row in rows if row["outcome_by_rules"] == outcome]
        by_reading = [row for row in rows if row["outcome_by_reading"] == outcome]
        both = sum(row["outcome_by_reading"] == outcome for row in by_rules)
        precision, recall = Rate(both, len(by_rules)), Rate(both, len(by_reading))
        yield f"| {outcome} | {_percent(precision)} | {_percent(recall)} |"
    agree = sum(row["outcome_by_rules"] == row["outcome_by_reading"] for row in rows)
    yield ""
    yield f"Agreement: {_percent(Rate(agree, len(rows)))} %, of {len({row['model'] for row in rows})} models."


def _percent(rate: Rate) -> str:
    if not rate.n:
        return "–"
    return f"{100 * rate.value:.1f} ({100 * rate.low:.1f}–{100 * rate.high:.1f}, n = {rate.n})"


def main() -> None:
    """Make a sheet, keep what a reader said, or print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make", type=Path, nargs="+", metavar="LOG")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add", type=Path, nargs=2, metavar=("SHEET", "VOTES"))
    options = parser.parse_args()
    if options.make:
        for row in sheet(options.make, options.count, options.seed):
            print(json.dumps(row))
        return
    if options.add:
        anew = list(labelled(*options.add))
        read = {(row["model"], row["id"]) for row in anew}
        earlier = [row for row in kept() if (row["model"], row["id"]) not in read]
        write_csv(DATA, COLUMNS, [*earlier, *anew])
    if rows := kept():
        print("\n".join((*confusion_table(rows), "", *quality_table(rows))))
    else:
        print(
            f"No labels are kept: {DATA.name} is not there. Make a sheet with --make LOG..., have it read, "
            "and keep the outcomes with --add SHEET VOTES."
        )


if __name__ == "__main__":
    main()
