"""What a campaign makes of its finished cells: a release and a report."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from overbench.campaign.campaign_cells import CELLS, configurations
from overbench.campaign.campaign_folder import JobFailure, keep_failure
from overbench.campaign.campaign_jobs import WORK, refreshed_prompts
from overbench.campaign.campaign_plan import CampaignPlan
from overbench.campaign.campaign_settings import ReleaseSettings, ReportSettings
from overbench.campaign.target_settings import CampaignTarget
from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.target_names import name_target
from overbench_tasks.tables import whole_file

RELEASE, REPORT, FAMILIES = "release", "report.html", "families.csv"
_FLAGS: Final = {"version": "release_version", "aliases": "alias"}
"""Settings of a release that overbench aggregate has by other names."""
_UNSAID: Final = ("about",)
"""That a command line has no place for."""


def write_release_and_report(plan: CampaignPlan, say: Callable[[str], object]) -> list[JobFailure]:
    """Make both, where they are asked for and there is anything to make them of.

    Returns:
        what went wrong: neither is a reason to lose the cells.
    """
    failures: list[JobFailure] = []
    wanted, cells = plan.settings, plan.out / CELLS
    if wanted.release is not None and plan.done:
        failures += _attempt(plan, RELEASE, *_release(plan, wanted.release, cells), say)
    if wanted.report is not None and plan.done:
        there = [] if wanted.release is None or failures else [plan.out / RELEASE]
        failures += _attempt(plan, REPORT, *_report(plan, wanted.report, [*there, cells]), say)
    return failures


def _attempt(
    plan: CampaignPlan,
    name: str,
    words: Sequence[object],
    make: Callable[[], object],
    say: Callable[[str], object],
) -> list[JobFailure]:
    """The failure, if it is one, with the words of the command that does the same."""
    try:
        make()
    except (OverbenchError, OSError) as error:
        what = Path(name).stem
        command = shlex.join(["overbench", *map(str, words), "--out", f"{what}-again{Path(name).suffix}"])
        failure = JobFailure(what, (), str(error), command, "")
        keep_failure(failure, plan.out, plan.out / WORK / what)
        return [failure]
    say(f"{plan.out / name}: written")
    return []


def _release(
    plan: CampaignPlan, wanted: ReleaseSettings, cells: Path
) -> tuple[list[object], Callable[[], object]]:
    from overbench.release.aggregate import aggregate
    from overbench.release.release_settings import AggregateSettings

    runs = [job.refreshes for job in plan.refreshes.values() if job.refreshes is not None]
    sources = [*(run for run in runs if refreshed_prompts(run) is not None), *wanted.sources]
    words: list[object] = ["aggregate", *sources, "--responses", cells]
    told = {**wanted.settings, "aliases": _aliases(plan, wanted.settings.get("aliases", ()))}
    for name, given in told.items():
        flag = f"--{_FLAGS.get(name, name)}"
        for value in given if isinstance(given, list | tuple) else [given]:
            if name not in _UNSAID and value not in (None, False):
                words += [flag] if value is True else [flag, value]
    settings = AggregateSettings.model_validate(told)
    return words, lambda: aggregate(sources, [cells], plan.out / RELEASE, settings, overwrite=True)


def _report(
    plan: CampaignPlan, wanted: ReportSettings, paths: Sequence[Path]
) -> tuple[list[object], Callable[[], object]]:
    from overbench.report.write_report import make_report

    first = next(iter(plan.settings.system_prompts)), next(iter(plan.settings.decodings))
    aliases = _aliases(plan, wanted.aliases)

    def make() -> None:
        make_report(
            paths,
            plan.out / REPORT,
            aliases=aliases,
            families=_families(plan),
            title=wanted.title,
            first_asked=[
                plan.out / CELLS / one.name
                for one in configurations(plan.settings)
                if (one.system, one.decoding) == first
            ],
        )

    words: list[object] = ["report", *paths]
    for alias in aliases:
        words += ["--alias", alias]
    return words, make


def _aliases(plan: CampaignPlan, given: Sequence[str]) -> list[str]:
    """Those given, and the campaign's own names of targets and system prompts for all others.

    Two targets of the campaign that lm-eval was told the same of keep lm-eval's name.
    """
    names: dict[str, set[str]] = {}
    for one in (cell.configuration for cell in plan.done):
        target = one.target
        long = name_target(target.model, target.model_args, one.system_text, target.apply_chat_template)
        if long.checkpoint == f"{target.model}:{target.model_args}":
            continue  # named by all arguments, which a port or a seed may change
        system = f" +system:{one.system}" if one.system_text else ""
        names.setdefault(long.target, set()).add(f"{target.name}{system}@{target.name}")
    named = {alias.rpartition("=")[0].strip() for alias in given}
    ours = [f"{long}={short}" for long, (short, *more) in sorted(names.items()) if not more]
    return [*(alias for alias in ours if alias.rpartition("=")[0] not in named), *given]


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
    from overbench.report.families import checkpoint_words

    if not (target.family or target.size or target.released):
        return None
    checkpoint = name_target(target.model, target.model_args).checkpoint
    return {
        "pattern": f"^{re.escape(checkpoint_words(checkpoint))}$",
        **{"family": target.family or "", "size": target.size or ""},
        **{"released": target.released or "", "line": target.line or ""},
    }
