"""lm-eval's output becomes finished cells: looked through, then moved into place whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from overbench.campaign.campaign_cells import FACTS, CampaignCell
from overbench.campaign.campaign_folder import unwritable
from overbench.campaign.campaign_jobs import CampaignJob
from overbench.release.partial_runs import estimates_of_all, subset_mark
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.labeller import JUDGE_ERROR, JUDGE_PENDING
from overbench_tasks.outcomes.logs import LoggedRun, read_run, sample_logs
from overbench_tasks.outcomes.reply_rows import read_replies
from overbench_tasks.outcomes.target_names import logged_target
from overbench_tasks.tables import whole_file
from overbench_tasks.text import number_of

FAILURES: Final = ("request_failed", JUDGE_ERROR, JUDGE_PENDING, "classifier_error")
"""Reasons for which a reply is unscored that another attempt may mend."""


@dataclass(frozen=True)
class CellFacts:
    """What is known of a finished cell, for the estimate and the status.

    Attributes:
        prompts: how many were asked.
        reply_chars: of all replies together.
        failed: replies that never came or were never labelled.
        seconds: its share, by prompts, of what lm_eval took.
        ended: when, in lm-eval's words.
        rate: of the replies that could be scored, the refused ones; None for none.
        estimates: of the rates on all prompts, in words, where not all were asked; "" where they were.
    """

    prompts: int
    reply_chars: int
    failed: int
    seconds: float
    ended: str
    rate: float | None
    estimates: str = ""


@dataclass
class ReplyCount:
    """What a sample log holds.

    Attributes:
        prompts, replies, chars: as many; characters of the replies.
        scored, refused, failed: replies that have a label, are refusals, never came or were never labelled.
    """

    prompts: int = 0
    replies: int = 0
    chars: int = 0
    scored: int = 0
    refused: int = 0
    failed: int = 0

    def check_failed(self, name: str, max_failed: float) -> None:
        """Raise OverbenchError where more of the requests failed than the share ``max_failed``."""
        if self.failed > max_failed * self.replies:
            raise OverbenchError(
                f"{name}: {self.failed} of {self.replies} replies never came or were never labelled, more "
                "than max_failed allows. The others are kept: the next run asks for these alone."
            )


def count_replies(log: Path) -> ReplyCount:
    """Read a sample log, a line at a time.

    Raises:
        OverbenchError: a line can't be read.
    """
    found = ReplyCount()
    for row in read_replies(log):
        found.prompts += 1
        found.chars += sum(map(len, row.replies))
        for verdict in row.logged or ():
            found.replies += 1
            found.scored += verdict.label != "unscored"
            found.refused += verdict.label == "refused"
            found.failed += verdict.reason in FAILURES
    return found


def take_in(job: CampaignJob, out: Path) -> list[CellFacts]:
    """Move what a job has written to the folders of its cells.

    Raises:
        OverbenchError: a cell's result is missing, cut short or can't be written, or too many of its requests
            failed; the others are in place.
    """
    taken, problems = take_each(job, out)
    if problems:
        raise OverbenchError(" ".join(problems))
    return list(taken.values())


def take_each(job: CampaignJob, out: Path) -> tuple[dict[str, CellFacts], list[str]]:
    """The same without an error: the cells that are in place, by name, and what is wrong with the others."""
    latest: dict[str, LoggedRun] = {}
    unread: list[str] = []
    seconds: dict[str, float] = {}
    for log in sample_logs(job.folder(out) / "output"):
        try:
            run = read_run(log)
        except OverbenchError as error:
            unread.append(str(error))
            continue
        seconds[run.date] = run.seconds or 0.0
        latest[run.task] = max(run, latest.get(run.task, run), key=lambda one: one.date)
    per_prompt = sum(seconds.values()) / max(1, sum(cell.task_spec.prompts for cell in job.cells))
    missing = " ".join(unread) or "lm_eval wrote no results. Is the disk full, or a folder gone?"
    taken: dict[str, CellFacts] = {}
    problems: list[str] = []
    for cell in job.cells:
        if (found := latest.get(cell.task_spec.task)) is None:
            problems.append(f"{cell.name}: {missing}")
            continue
        try:
            taken[cell.name] = _take(cell, found, job, out, per_prompt * cell.task_spec.prompts)
        except OverbenchError as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{cell.name}: {unwritable(out, error)}")
    return taken, problems


def _take(cell: CampaignCell, run: LoggedRun, job: CampaignJob, out: Path, seconds: float) -> CellFacts:
    found = count_replies(run.file)
    if run.expected not in (None, found.prompts):
        raise OverbenchError(
            f"{cell.name}: expected replies to {number_of(run.expected or 0, 'prompt')} in "
            f"{run.file.name}, found {found.prompts:,}. Was the disk full?"
        )
    found.check_failed(cell.name, job.max_failed)
    rate = found.refused / found.scored if found.scored else None
    estimates = estimates_of_all(run)
    if mark := subset_mark(run):
        told = estimates or ("Estimate" if rate is None else f"Estimate: {100 * rate:.1f} % refused")
        estimates = f"{told}, by a {mark}; its interval: overbench subset RELEASE --estimate"
    facts = CellFacts(found.prompts, found.chars, found.failed, seconds, run.date, rate, estimates)
    _put_in_place(cell, run, facts, job.folder(out) / "finished" / cell.key, cell.folder(out))
    return facts


def _put_in_place(cell: CampaignCell, run: LoggedRun, facts: CellFacts, partial: Path, place: Path) -> None:
    inner = partial / run.file.parent.name
    inner.mkdir(parents=True)
    for file in (run.results_file, run.file):
        shutil.copyfile(file, inner / file.name)
    with whole_file(partial / FACTS, sync=True) as told:
        json.dump(
            {
                "name": cell.name,
                "target_key": logged_target(run).key,
                **cell.facts,
                "result": asdict(facts),
            },
            told,
            indent=2,
            ensure_ascii=False,
        )
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    partial.rename(place)


def target_key_of(cell: CampaignCell, out: Path) -> str | None:
    """The key of the target that a finished cell's replies are of; of a cell that was finished before cells
    told it, as its log has it. None where neither can be read."""
    folder = cell.folder(out)
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        if (key := facts.get("target_key")) is not None:
            return str(key)
        return next((logged_target(read_run(log)).key for log in sample_logs(folder)), None)
    except (OSError, ValueError, AttributeError, OverbenchError):
        return None


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
