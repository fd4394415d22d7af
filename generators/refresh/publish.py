"""What a run exports: task data that ``lm_eval --tasks overbench_model`` finds by the target's name.

    overbench_model.jsonl            verified: passed all gates, and the target itself refuses it
    overbench_model_accepted.jsonl   accepted: passed all gates; the fair base of a refusal rate
    rejections.jsonl                 every candidate that a gate turned away, with the reason

The first two are copied to where the tasks look; all three are in the run's ``data`` folder. They are
made anew from the run's rows, so exporting twice gives the same files.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from generators.categories.keywords import categorise
from generators.refresh.run import Run
from generators.refresh.store import StoreError
from generators.targets.naming import system_suffix
from overbench_tasks import __version__
from overbench_tasks.prompt_sets import ACCEPTED_NAME, REFRESHED_NAME, refreshed_folder

REJECTIONS_NAME = "rejections.jsonl"


def publish(run: Run) -> dict[str, Any]:
    """Write the data files of a run; returns their row counts and the folder that the tasks read.

    Raises:
        StoreError: a file cannot be written.
    """
    accepted = [record(run, row) for row in _accepted_rows(run)]
    verified = [row for row in accepted if row["verified"]]
    own, tasks = run.store.folder / "data", refreshed_folder(published_name(run))
    for folder in (own, tasks):
        for name, rows in ((ACCEPTED_NAME, accepted), (REFRESHED_NAME, verified)):
            if rows:
                write_lines(folder / name, rows)
    write_lines(own / REJECTIONS_NAME, _rejections(run))
    return {"accepted": len(accepted), "verified": len(verified), "folder": str(tasks)}


def published_name(run: Run) -> str:
    """Under which name the tasks find the set: the target's, and what tells apart a system instruction.

    lm-eval does not show a task its system instruction, so such a set is found by ``overbench_target`` only.
    """
    said = run.settings.target.system_instruction
    return run.target.name + (system_suffix(said) if said else "")


def _accepted_rows(run: Run) -> list[sqlite3.Row]:
    query = """
        SELECT prompts.*, candidates.refusal_probability, votes.votes, answers.reply, labels.label,
               labels.reason AS label_reason, labels.label_by
        FROM prompts
        JOIN candidates ON candidates.prompt_id = prompts.id AND candidates.gate = ''
        JOIN answers ON answers.prompt_id = prompts.id AND answers.target = :target
             AND answers.decoding = :decoding
        JOIN labels ON labels.prompt_id = prompts.id AND labels.target = :target
             AND labels.decoding = :decoding AND labels.labeller = :labeller
        LEFT JOIN votes ON votes.prompt_id = prompts.id
        WHERE prompts.part = 'accepted' ORDER BY prompts.round, prompts.position"""
    target = run.target
    keys = {"target": target.name, "decoding": target.decoding, "labeller": run.labeller.name}
    return run.store.rows(query, keys)


def record(run: Run, row: sqlite3.Row) -> dict[str, Any]:
    """One prompt with how it came to be: the fields of the project's prompt record, and the reply."""
    refused = row["label"] == "refused"
    filed = categorise(row["prompt"], [row["feature"]])
    return {
        "id": row["id"],
        "prompt": row["prompt"],
        "category": filed.category,
        "category_evidence": filed.evidence,
        "or_bench_category": filed.or_bench_category,
        "features": [row["feature"]],
        "seed_id": row["seed_id"],
        "round": row["round"],
        "source_target": run.target.name,
        "generator": run.adversary.version,
        "moderation": "unmoderated" if run.moderator.unmoderated else _votes(row["votes"]),
        "refusal_probability": row["refusal_probability"],
        "verified": refused,
        "refused_by": [run.target.name] if refused else [],
        "label": row["label"],
        "label_reason": row["label_reason"],
        "label_by": row["label_by"],
        "reply": row["reply"],
        "data_version": f"overbench {__version__}",
    }


def _votes(text: str) -> list[dict[str, str]]:
    """Votes as records hold them: what they cost is the run's affair."""
    return [{name: vote[name] for name in ("by", "verdict", "said")} for vote in json.loads(text)]


def _rejections(run: Run) -> Iterator[dict[str, Any]]:
    query = """
        SELECT candidates.*, jobs.round, jobs.seed_id, jobs.feature FROM candidates
        JOIN jobs ON jobs.id = candidates.job_id WHERE gate != ''
        ORDER BY jobs.round, jobs.wave, jobs.position, candidates.number"""
    for row in run.store.rows(query):
        names = ("prompt_id", "prompt", "gate", "reason", "detail", "round", "seed_id", "feature", "job_id")
        yield {name: row[name] for name in names}


def write_lines(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write JSON lines in UTF-8, whole or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    partial = file.with_name(file.name + ".partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8", newline="\n") as lines:
            for row in rows:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
        partial.replace(file)
    except OSError as error:
        raise StoreError(
            f"{file} cannot be written: {error}. Make room, then start the same command again."
        ) from error
