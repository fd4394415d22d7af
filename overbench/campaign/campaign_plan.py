"""What a campaign consists of now: its refreshes, its cells, and what can't be asked or not yet."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from overbench.campaign.campaign_cells import (
    CELLS,
    FACTS,
    CampaignCell,
    cells_of,
    configurations,
)
from overbench.campaign.campaign_jobs import CampaignJob, evaluations, refresh_job, refreshed_prompts
from overbench.campaign.campaign_settings import CampaignSettings, SetSettings
from overbench.campaign.task_specs import PART_FACTS, TaskSpec, labelled_by, part_of, task_spec
from overbench_tasks.errors import OverbenchError

EARLIER: Final = "earlier"
"""Finished cells that the settings don't have any more; they come back where the settings do."""


@dataclass
class CampaignPlan:
    """A campaign in a folder.

    Attributes:
        refreshes: all of them, by target.
        cells: those whose prompts are there, in the order of the file.
        problems: set -> why it can't be asked.
        waiting: sets of prompts that are still to be refreshed, each with the target.
    """

    settings: CampaignSettings
    out: Path
    refreshes: dict[str, CampaignJob] = field(default_factory=dict)
    cells: list[CampaignCell] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    waiting: list[tuple[str, str]] = field(default_factory=list)

    @property
    def done(self) -> list[CampaignCell]:
        return [cell for cell in self.cells if cell.is_done(self.out)]

    def unfinished_refreshes(self) -> list[str]:
        """The targets whose prompts are still to be refreshed."""
        return [name for name, job in self.refreshes.items() if refreshed_prompts(_run(job)) is None]

    def jobs(self, without: Collection[str] = ()) -> list[CampaignJob]:
        """What is still to be done, as far as it can be now; target by target.

        Args:
            without: names of cells and of refreshes to leave out.
        """
        left = [cell for cell in self.cells if cell.name not in without and not cell.is_done(self.out)]
        together, most = self.settings.share_model_load, self.settings.max_failed
        found = [job for job in self.refreshes.values() if refreshed_prompts(_run(job)) is None]
        found = [job for job in found if job.name not in without]
        found += evaluations(left, self.out, together=together, max_failed=most)
        order = {target.name: place for place, target in enumerate(self.settings.targets)}
        return sorted(found, key=lambda job: order[job.target])


def _run(job: CampaignJob) -> Path:
    assert job.refreshes is not None
    return job.refreshes


def make_plan(settings: CampaignSettings, out: Path) -> CampaignPlan:
    """Read all sets; one that can't be read is a problem, and no other's."""
    out = out.absolute()
    plan = CampaignPlan(settings, out)
    for target in settings.targets:
        if (job := refresh_job(settings, target, out)) is not None:
            plan.refreshes[target.name] = job
    by_set: list[tuple[str, list[TaskSpec], list[str]]] = []
    for name in settings.sets:
        try:
            one = settings.set_settings(name)
            if one.refreshed:
                by_set.append((name, *_refreshed_sets(name, one, plan)))
            else:
                by_set.append((name, [task_spec(name, one, settings.labeller)], []))
        except OverbenchError as error:
            plan.problems[name] = str(error)
    found = [cell for name, asked, whose in by_set for cell in cells_of(settings, name, asked, whose)]
    order = {target.name: place for place, target in enumerate(settings.targets)}
    plan.cells = sorted(found, key=lambda cell: order[cell.configuration.target.name])
    return plan


def _refreshed_sets(name: str, one: SetSettings, plan: CampaignPlan) -> tuple[list[TaskSpec], list[str]]:
    asked, whose = [], []
    for target, job in plan.refreshes.items():
        prompts = refreshed_prompts(_run(job))
        if prompts is None:
            plan.waiting.append((name, target))
            continue
        source = one.model_copy(update={"source": str(prompts), "refreshed": False})
        asked.append(task_spec(f"{name}-{target}", source, plan.settings.labeller))
        whose.append(target)
    return asked, whose


def tidy(plan: CampaignPlan) -> None:
    """Let ``cells/`` hold the finished cells of the plan and no others.

    These go to ``earlier/``, from where they come back.

    Raises:
        OSError: a folder can't be moved.
    """
    known = {cell.folder(plan.out) for cell in plan.cells}
    for file in sorted((plan.out / CELLS).rglob(FACTS)):
        if file.parent not in known and not _of_problem(file, plan):
            _move(file.parent, plan.out / EARLIER / file.parent.relative_to(plan.out / CELLS))
    for cell in plan.cells:
        for name in (cell.configuration.name, *cell.configuration.former_names):
            before = plan.out / EARLIER / name / cell.task_spec.name / cell.key
            if (before / FACTS).is_file() and not cell.is_done(plan.out):
                _move(before, cell.folder(plan.out))


def _of_problem(file: Path, plan: CampaignPlan) -> bool:
    """Whether a finished cell is of a set that can't be read today, and else as the settings have it."""
    configuration, task_spec = file.parents[2], file.parents[1].name
    if task_spec not in plan.problems:
        return False
    name = str(configuration.relative_to(plan.out / CELLS))
    told = json.loads(file.read_text(encoding="utf-8"))
    settings = plan.settings
    asked = {"labeller": labelled_by(settings.labeller)}
    part = part_of(settings.set_settings(task_spec))
    if {key: told[key] for key in PART_FACTS if key in told} != part:
        return False
    wanted = [{**one.asked, **asked} for one in configurations(settings) if one.name == name]
    return any(told.items() >= one.items() for one in wanted)


def _move(place: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(to, ignore_errors=True)
    place.rename(to)


def told_sets(cells: Sequence[CampaignCell]) -> list[TaskSpec]:
    """The sets of these cells, each once."""
    return list({cell.task_spec.name: cell.task_spec for cell in cells}.values())
