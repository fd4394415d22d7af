"""lm-eval's output becomes finished cells: looked through, then moved into place whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from generators.campaign.campaign_cells import FACTS, CampaignCell
from generators.campaign.campaign_jobs import CampaignJob
from overbench_tasks.errors import OverbenchError
from overbench_tasks.logs import LoggedRun, read_run, sample_logs
from overbench_tasks.reply_rows import read_replies
from overbench_tasks.tables import whole_file


@dataclass(frozen=True)
class CellFacts:
    """What is known of a finished cell, for the estimate and the status.

    Attributes:
        prompts: how many were asked.
        reply_chars: of all replies together.
        failed: requests that brought no reply.
        seconds: its share, by prompts, of what lm_eval took.
        ended: when, in lm-eval's words.
        rate: of the replies that could be scored, the refused ones; None for none.
    """

    prompts: int
    reply_chars: int
    failed: int
    seconds: float
    ended: str
    rate: float | None


def take_in(job: CampaignJob, out: Path) -> list[CellFacts]:
    """Move what a job has written to the folders of its cells.

    Raises:
        OverbenchError: a result is missing, cut short, or too many requests failed; cells before it in
            the job are in place.
        OSError: something can't be written.
    """
    logs = {read_run(file).task: read_run(file) for file in sample_logs(job.folder(out) / "output")}
    total = sum(cell.asked_set.prompts for cell in job.cells)
    return [_take(cell, logs.get(cell.asked_set.task), job, out, total) for cell in job.cells]


def _take(cell: CampaignCell, run: LoggedRun | None, job: CampaignJob, out: Path, total: int) -> CellFacts:
    if run is None:
        raise OverbenchError(
            f"{cell.name}: lm_eval ended well and wrote no results. Is the disk full, or a folder gone?"
        )
    rows = list(read_replies(run.file))
    if run.expected not in (None, len(rows)):
        raise OverbenchError(
            f"{cell.name}: expected replies to {run.expected} prompts in {run.file.name}, found {len(rows)}. "
            "Was the disk full?"
        )
    verdicts = [verdict for row in rows for verdict in row.logged or ()]
    failed = sum(verdict.reason == "request_failed" for verdict in verdicts)
    if failed > job.max_failed * len(verdicts):
        raise OverbenchError(
            f"{cell.name}: {failed} of {len(verdicts)} requests failed, more than max_failed allows. The "
            "others are kept: the next run asks for these alone."
        )
    scored = [verdict.label for verdict in verdicts if verdict.label != "unscored"]
    chars = sum(len(reply) for row in rows for reply in row.replies)
    seconds = (run.seconds or 0.0) * len(rows) / max(1, total)
    rate = scored.count("refused") / len(scored) if scored else None
    facts = CellFacts(len(rows), chars, failed, seconds, run.date, rate)
    _put_in_place(cell, run, facts, job.folder(out) / "finished" / cell.key, cell.folder(out))
    return facts


def _put_in_place(cell: CampaignCell, run: LoggedRun, facts: CellFacts, partial: Path, place: Path) -> None:
    inner = partial / run.file.parent.name
    inner.mkdir(parents=True)
    for file in (run.results_file, run.file):
        shutil.copyfile(file, inner / file.name)
    with whole_file(partial / FACTS, sync=True) as told:
        json.dump(
            {"name": cell.name, **cell.facts, "result": asdict(facts)}, told, indent=2, ensure_ascii=False
        )
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    partial.rename(place)


def facts_of(cell: CampaignCell, out: Path) -> CellFacts:
    """What is known of a cell that is done.

    Raises:
        OverbenchError: its file can't be read.
    """
    file = cell.folder(out) / FACTS
    try:
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return CellFacts(**told["result"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise OverbenchError(
            f"{file} can't be read: {error}. Delete its folder; the cell is asked again from the cache."
        ) from error
