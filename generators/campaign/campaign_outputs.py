"""What a campaign makes of its finished cells: a release and a report."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

from generators.campaign.campaign_cells import CELLS
from generators.campaign.campaign_folder import JobFailure
from generators.campaign.campaign_jobs import refreshed_prompts
from generators.campaign.campaign_plan import CampaignPlan
from generators.campaign.target_settings import CampaignTarget
from generators.targets.naming import name_target
from overbench_tasks.errors import OverbenchError
from overbench_tasks.tables import whole_file

RELEASE, REPORT, FAMILIES = "release", "report.html", "families.csv"


def write_release_and_report(plan: CampaignPlan, say: Callable[[str], object]) -> list[JobFailure]:
    """Make both, where they are asked for and there is anything to make them of.

    Returns:
        what went wrong: neither is a reason to lose the cells.
    """
    failures = []
    steps = ((plan.settings.release, "release", _release), (plan.settings.report, "report", _report))
    for wanted, name, make in steps:
        if wanted is None or not plan.done:
            continue
        try:
            say(f"{make(plan)}: written")
        except (OverbenchError, OSError) as error:
            failures.append(JobFailure(name, (), str(error), "", ""))
    return failures


def _release(plan: CampaignPlan) -> Path:
    from generators.release.aggregate import aggregate
    from generators.release.release_settings import AggregateSettings

    wanted, out = plan.settings.release, plan.out / RELEASE
    assert wanted is not None
    runs = [job.refreshes for job in plan.refreshes.values() if job.refreshes is not None]
    runs = [run for run in runs if refreshed_prompts(run) is not None]
    settings = AggregateSettings.model_validate(wanted.settings)
    aggregate([*runs, *wanted.sources], [plan.out / CELLS], out, settings, overwrite=True)
    return out


def _report(plan: CampaignPlan) -> Path:
    from generators.report.write_report import make_report

    wanted, out = plan.settings.report, plan.out / REPORT
    assert wanted is not None
    release = plan.out / RELEASE
    paths = [release] if plan.settings.release is not None and release.is_dir() else []
    families = _families(plan)
    make_report(
        [*paths, plan.out / CELLS], out, aliases=wanted.aliases, families=families, title=wanted.title
    )
    return out


def _families(plan: CampaignPlan) -> Path | None:
    """The table of families, sizes and dates that the targets say of themselves; None where none does."""
    rows = [row for target in plan.settings.targets if (row := _family(target))]
    if not rows:
        return None
    file = plan.out / FAMILIES
    with whole_file(file) as out:
        table = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    return file


def _family(target: CampaignTarget) -> dict[str, object] | None:
    from generators.report.families import checkpoint_words

    if not (target.family or target.size or target.released):
        return None
    checkpoint = name_target(target.model, target.model_args).checkpoint
    return {
        "pattern": f"^{re.escape(checkpoint_words(checkpoint))}$",
        **{"family": target.family or "", "size": target.size or ""},
        **{"released": target.released or "", "line": target.line or ""},
    }
