"""What a run exports: task data that ``lm_eval --tasks overbench_model`` finds by the target's name.

    overbench_model.jsonl            verified: passed all filters, and the target itself refuses it
    overbench_model_accepted.jsonl   accepted: passed all filters; the fair base of a refusal rate
    rejections.jsonl                 every candidate that a filter turned away, with the reason

The first two are copied to where the tasks look; all three are in the run's ``data`` folder. They are
made anew from the run's rows, so exporting twice gives the same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from generators.categories.keywords import categorise
from generators.refresh.run import Run
from overbench_tasks import __version__
from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.target_names import system_suffix
from overbench_tasks.prompts.refreshed import ACCEPTED_NAME, REFRESHED_NAME, refreshed_folder
from overbench_tasks.tables import whole_file


class Published(NamedTuple):
    """How many prompts passed all filters, how many of them the target refuses, and where the tasks look.

    ``folder`` is None where there was nothing to write there.
    """

    accepted: int
    verified: int
    folder: Path | None


def publish(run: Run) -> Published:
    """Write the data files of a run.

    Raises:
        OverbenchError: a file cannot be written.
    """
    accepted = in_order_of_ids(_record(run, row) for row in run.store.accepted(run.asking))
    verified = [row for row in accepted if row["verified"]]
    # lm-eval shows a task no system instruction, so such a set is found by `overbench_target` alone.
    said = run.settings.target.system_instruction
    tasks = refreshed_folder(run.target.name + (system_suffix(said) if said else ""))
    own = run.store.folder / "data"
    for folder in (own, tasks):
        for name, rows in ((ACCEPTED_NAME, accepted), (REFRESHED_NAME, verified)):
            if rows:
                write_lines(folder / name, rows)
    write_lines(own / "rejections.jsonl", map(_rejection, run.store.rejections()))
    return Published(len(accepted), len(verified), tasks if accepted else None)


def _record(run: Run, row: Mapping[str, Any]) -> dict[str, Any]:
    """One prompt with how it came to be: the fields of the project's prompt record, and the reply."""
    refused = row["label"] == "refused"
    filed = categorise(row["prompt"], [row["feature"]])
    return {
        **_columns(row, "id", "prompt"),
        "category": filed.category,
        "category_evidence": filed.evidence,
        "or_bench_category": filed.or_bench_category,
        "features": [row["feature"]],
        **_columns(row, "seed_id", "round"),
        "source_target": run.target.name,
        "generator": run.adversary.version,
        "moderation": "unmoderated" if run.moderator.unmoderated else _votes(row),
        "refusal_probability": row["refusal_probability"],
        "verified": refused,
        "refused_by": [run.target.name] if refused else [],
        **_columns(row, "label", "label_reason", "label_by", "reply"),
        "data_version": f"overbench {__version__}",
    }


def _rejection(row: Mapping[str, Any]) -> dict[str, Any]:
    """One candidate that was turned away; with votes where moderation did it."""
    return {**row, "votes": _votes(row)}


def _votes(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Without what they cost, which is the run's affair."""
    return [_columns(vote, "by", "verdict", "said") for vote in row["votes"]]


def _columns(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def in_order_of_ids(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prompt records by id, a hash of the text. So the first ones, as ``lm_eval --limit`` takes them, are a
    random part, and not those of the first round or seeds."""
    return sorted(records, key=lambda record: str(record["id"]))


def write_lines(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """A whole JSONL file.

    Raises:
        OverbenchError: it cannot be written.
    """
    try:
        with whole_file(file) as lines:
            lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    except OSError as error:
        raise OverbenchError(
            f"{file} cannot be written: {error}. Make room, then start the same command again."
        ) from error
