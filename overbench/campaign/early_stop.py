"""A cell that stops once its interval is narrow enough: one lm_eval for each look, each asking more prompts.

What earlier ones were answered comes from the cache, so the last output is of all prompts asked, and is the
cell's: an ordinary one with ``--limit``.
"""

from __future__ import annotations

from pathlib import Path

from overbench.campaign.campaign_jobs import CampaignJob
from overbench.release.partial_runs import sides_asked
from overbench_tasks.metrics.stop_at_ci_width import SideSoFar, next_look
from overbench_tasks.outcomes.logs import LoggedRun, read_run, sample_logs


def runs_of(job: CampaignJob, out: Path) -> list[LoggedRun]:
    """What a job's lm_evals have written so far, of each task the latest last.

    Raises:
        OverbenchError: a log or its results can't be read.
    """
    runs = [read_run(file) for file in sample_logs(job.folder(out) / "output")]
    return sorted(runs, key=lambda run: run.date)


def first_limit(job: CampaignJob) -> int | None:
    """``--limit`` of a job's first lm_eval; None: it asks what its command says, and once."""
    if not job.stop_at_ci_width:
        return None
    asked = job.cells[0].task_spec
    look = next_look([SideSoFar(0, 0, total) for total in asked.sides], 0, job.stop_at_ci_width)
    return min(look or asked.prompts, asked.prompts)


def next_limit(job: CampaignJob, out: Path, limit: int | None) -> int | None:
    """``--limit`` of the lm_eval that is to follow the one with ``limit``; None: the job is done.

    Raises:
        OverbenchError: no log was written, or it can't be read.
    """
    asked = job.cells[0].task_spec if limit else None
    runs = runs_of(job, out) if asked else []
    if asked is None or limit is None or limit >= asked.prompts or not runs:
        return None
    look = next_look([*sides_asked(runs[-1]).values()], limit, job.stop_at_ci_width)
    return look and min(look, asked.prompts)
