"""What a campaign makes of its finished cells: a release and a report."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from overbench.campaign.campaign_cells import CELLS, configurations
from overbench.campaign.campaign_folder import JobFailure, keep_failure
from overbench.campaign.campaign_jobs import WORK, refreshed_prompts
from overbench.campaign.campaign_plan import CampaignPlan
from overbench.campaign.campaign_settings import ReleaseSettings, ReportSettings
from overbench.campaign.finished_cells import target_key_of
from overbench.campaign.target_settings import CampaignTarget
from overbench.release.release_inputs import refreshed_target
from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.target_names import Aliases, TargetAlias, name_target
from overbench_tasks.outcomes.target_record import TargetRecord

if TYPE_CHECKING:
    from overbench.report.families import ModelFacts

RELEASE, REPORT = "release", "report.html"
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
    settings = AggregateSettings.model_validate(wanted.settings)
    names = target_names(plan)
    texts = Aliases(settings.aliases, names).texts
    for name, given in {**wanted.settings, "aliases": texts}.items():
        flag = f"--{_FLAGS.get(name, name)}"
        for value in given if isinstance(given, list | tuple) else [given]:
            if name not in _UNSAID and value not in (None, False):
                words += [flag] if value is True else [flag, value]
    return words, lambda: aggregate(
        sources, [cells], plan.out / RELEASE, settings, overwrite=True, names=names
    )


def _report(
    plan: CampaignPlan, wanted: ReportSettings, paths: Sequence[Path]
) -> tuple[list[object], Callable[[], object]]:
    from overbench.report.write_report import make_report

    first = next(iter(plan.settings.system_prompts)), next(iter(plan.settings.decodings))
    names = target_names(plan)

    def make() -> None:
        make_report(
            paths,
            plan.out / REPORT,
            aliases=wanted.aliases,
            names=names,
            facts=checkpoint_facts(plan.settings.targets),
            title=wanted.title,
            first_asked=[
                plan.out / CELLS / one.name
                for one in configurations(plan.settings)
                if (one.system, one.decoding) == first
            ],
        )

    words: list[object] = ["report", *paths]
    for alias in Aliases(wanted.aliases, names).texts:
        words += ["--alias", alias]
    return words, make


def target_names(plan: CampaignPlan) -> dict[str, TargetAlias]:
    """The campaign's own names of targets and system prompts, by the keys of the targets.

    Two targets of the campaign that are one checkpoint keep lm-eval's name.
    """
    names: dict[str, set[TargetAlias]] = {}
    keys: dict[str, set[str | None]] = {}
    for cell in plan.done:
        configuration = cell.configuration
        target = configuration.target
        record = _record(target, configuration.system_text)
        if record.checkpoint == f"{target.model}:{target.model_args}":
            continue  # named by all arguments, which a port or a seed may change
        system = configuration.system if configuration.system_text else None
        name = f"{target.name} +system:{system}" if system else target.name
        names.setdefault(record.target, set()).add(TargetAlias(record.target, name, target.name, system))
        keys.setdefault(record.target, set()).add(target_key_of(cell, plan.out))
    for job in plan.refreshes.values():
        if job.refreshes is not None and refreshed_prompts(job.refreshes) is not None:
            record = refreshed_target(job.refreshes)
            keys.setdefault(record.target, set()).add(record.key)
    return {
        key: alias
        for long, (alias, *others) in names.items()
        for key in keys[long]
        if key is not None and not others
    }


def _record(target: CampaignTarget, system_text: str = "") -> TargetRecord:
    return name_target(target.model, target.model_args, system_text, target.apply_chat_template)


def checkpoint_facts(targets: Sequence[CampaignTarget]) -> dict[str, ModelFacts]:
    """What targets say of themselves, by lm-eval's names of their checkpoints."""
    from overbench.report.families import ModelFacts

    return {
        _record(target).checkpoint: ModelFacts(
            family=target.family or "",
            size=math.nan if target.size is None else target.size,
            released=target.released or "",
            line=target.line or "",
        )
        for target in reversed(targets)  # of one checkpoint, the first target's stand
        if target.family or target.size or target.released
    }
