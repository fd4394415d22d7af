"""A campaign from its settings to its report. Killed anywhere, the same call goes on from there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from overbench.campaign.campaign_folder import JobFailure, check_there, locked
from overbench.campaign.campaign_jobs import TASKS, WORK
from overbench.campaign.campaign_outputs import write_release_and_report
from overbench.campaign.campaign_plan import CampaignPlan, make_plan, tidy, told_sets
from overbench.campaign.campaign_settings import CampaignSettings
from overbench.campaign.engines.engine import Engine, JobResult
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.registry import by_name
from overbench_tasks.text import number_of

Say = Callable[[str], object]


@dataclass(frozen=True)
class CampaignOutcome:
    """What a call has come to.

    Attributes:
        cells: how many the campaign has, as far as their prompts are there.
        done: how many of them are finished.
        new: how many of these this call has finished.
        failures: what is not, and why.
    """

    cells: int
    done: int
    new: int
    failures: tuple[JobFailure, ...]


def run_campaign(
    settings: CampaignSettings, out: Path, engine: Engine, say: Say = lambda line: None
) -> CampaignOutcome:
    """Do what is left to do: refreshes, cells, the release and the report.

    Args:
        out: the campaign's folder.
        engine: what carries out jobs.
        say: told what happens, a line at a time.

    Raises:
        OverbenchError: another campaign works in ``out``, or it can't be written; the labeller can't be used.
    """
    out = out.absolute()
    with by_name(settings.labeller.by, settings.labeller.by_args):
        pass  # a key or a package that is missing is missing before any model is loaded
    with locked(out, settings):
        shutil.rmtree(out / WORK, ignore_errors=True)
        failed: list[JobFailure] = []
        new = 0

        def on_result(result: JobResult) -> None:
            nonlocal new
            new += len(result.cells)
            if result.failure is not None:
                failed.append(result.failure)
            for line in result_lines(result):
                say(line)

        plan = _planned(settings, out)
        say(f"{out}: {len(plan.done):,} of {len(plan.cells):,} cells are done.")
        engine.run(plan.jobs(), out, on_result)
        if plan.waiting:
            check_there(out)
            plan = _planned(settings, out)
            tried = {name for one in failed for name in one.cells or (one.job,)}
            engine.run(plan.jobs(tried), out, on_result)
        check_there(out)
        failures = [*_not_asked(plan), *failed]
        failures += write_release_and_report(plan, say)
        return CampaignOutcome(len(plan.cells), len(plan.done), new, tuple(failures))


def _planned(settings: CampaignSettings, out: Path) -> CampaignPlan:
    plan = make_plan(settings, out)
    try:
        tidy(plan)
        for asked in told_sets(plan.cells):
            asked.write(out / TASKS)
    except OSError as error:
        raise OverbenchError(f"{out} can't be written: {error}. Make room or mend the rights.") from error
    return plan


def _not_asked(plan: CampaignPlan) -> list[JobFailure]:
    found = [JobFailure(f"set {name}", (), why, "", "") for name, why in plan.problems.items()]
    return found + [
        JobFailure(f"set {name}", (), f"it waits for the prompts that {target}'s refresh is to make", "", "")
        for name, target in plan.waiting
    ]


def result_lines(result: JobResult) -> list[str]:
    """What came of a job, a line for each cell that is done, and one for the others."""
    lines = []
    for cell, facts in zip(result.job.cells, result.cells, strict=True):
        rate = "no reply could be scored" if facts.rate is None else f"{100 * facts.rate:.1f} % refused"
        found = facts.estimates or f"{number_of(facts.prompts, 'prompt')}, {rate}"
        lost = number_of(facts.failed, "reply")
        failed = f", {lost} never came or never got a label" if facts.failed else ""
        lines.append(f"{cell.name}: {found}{failed}, {facts.seconds:,.0f} s")
    if result.failure is not None:
        return [*lines, f"{result.job.name}: FAILED: {result.failure.why}"]
    if result.apart:
        lines.append(f"{result.job.name}: lm_eval ended in an error; what is left is asked a set at a time")
    return lines or [f"{result.job.name}: done"]
