"""A campaign in lines for people: what it will take, and where it stands."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from overbench.campaign.campaign_cells import CampaignCell
from overbench.campaign.campaign_estimate import CampaignEstimate, most_tokens
from overbench.campaign.campaign_folder import JobFailure, at_work, failures, is_locked
from overbench.campaign.campaign_jobs import LOG, SHARDS
from overbench.campaign.campaign_plan import CampaignPlan
from overbench.campaign.engines.local_engine import progress
from overbench.campaign.engines.processes import last_said
from overbench.campaign.engines.shards import ShardStore, shards_of
from overbench.campaign.finished_cells import facts_of
from overbench_tasks.text import number_of, printable

_SAID: Final = 10
"""Lines of a log."""
_UNITS = ("B", "KB", "MB", "GB", "TB")


def estimate_lines(found: CampaignEstimate, *, ray: bool = False) -> Iterator[str]:
    """``--dry_run``, line by line.

    Args:
        ray: whether cells are asked in shards.
    """
    settings, targets = found.plan.settings, found.targets.values()
    cells, calls = sum(one.cells for one in targets), sum(one.calls for one in targets)
    more = f"; {found.done:,} are done" if found.done else ""
    yield f"cells       {cells:,} to ask{more}"
    for name, sets in found.sets.items():
        prompts, drawn_of, of_cells = map(sum, zip(*sets.values(), strict=True))
        seed = settings.set_settings(name).sample_seed
        drawn = f" of {drawn_of:,}, drawn by seed {seed}" if drawn_of else ""
        several = f" in {len(sets):,} sets" if len(sets) > 1 else ""
        yield f"prompts     {name}: {prompts:,}{drawn}{several}, in {number_of(of_cells, 'cell')}"
    yield f"calls       {calls:,} of {number_of(len(targets), 'target')}"
    tokens = sum(one.tokens_in for one in targets), sum(one.tokens_out for one in targets)
    bound = "about" if found.like_earlier else "at most"
    yield f"tokens      about {tokens[0]:,.0f} in and {bound} {tokens[1]:,.0f} out"
    if found.refreshes:
        plans = found.refreshes.values()
        cost = _money(sum(plan.cost("writer", "moderation") for plan in plans))
        votes = sum(plan.paid["moderation"].calls for plan in plans)
        yield (
            f"refresh     {number_of(len(plans), 'target')}, at most "
            f"{number_of(sum(one.refresh_calls for one in targets), 'call')} of theirs, "
            f"{number_of(sum(plan.written for plan in plans), 'candidate')} of the writer and "
            f"{number_of(votes, 'judge call')}; writer and judges {cost}"
        )
    refreshes = f", {found.refresh_judge_calls:,} of them in refreshes" if found.refresh_judge_calls else ""
    judge = f"{number_of(found.judge_calls, 'judge call')}{refreshes}, {_money(found.judge_cost)}"
    yield f"label       by {settings.labeller.by}: {judge if found.judge_calls else 'costs nothing'}"
    if api := sum(one.cost for one in targets):
        yield f"targets     {_money(api)} to their providers"
    yield from _throughput(found)
    shards = f" and up to {size(sum(one.shards for one in targets))} of shards" if ray else ""
    yield f"disk        about {size(sum(one.disk for one in targets))}{shards}; refreshes and report apart"
    yield from (f"assumed     {printable(line)}" for line in found.assumed)
    for name, why in found.unknown.items():
        yield f"not counted set {name} (state its prompts: N): {printable(why)}"


def _money(dollars: float) -> str:
    return f"about {dollars:,.2f} US dollars"


def _throughput(found: CampaignEstimate) -> Iterator[str]:
    known = [one for one in found.targets.values() if one.hours is not None and one.tokens_out]
    alike: dict[str, list[str]] = {}
    for one in known:
        how = "measured, loading and replies from caches included," if one.measured else "stated"
        if one.shown is not None and not one.measured:
            how += f" (its few replies so far: {one.shown:,.0f}, loading included)"
        gpus = f" on {_gpus(one.target.gpus)}" if one.target.gpus else ""
        told = f"{hours(one.hours or 0)} at {one.tokens_per_second:,.0f} tokens/s {how}{gpus}"
        alike.setdefault(told, []).append(one.target.name)
    for told, names in alike.items():
        more = f" and {len(names) - 3} more, each" if len(names) > 3 else ""
        yield f"time        {', '.join(names[:3])}{more}: {told}"
    total, alone = sum(one.gpu_hours for one in known), sum(one.hours or 0 for one in known)
    if known:
        apart = "loading models" + (", detectors and attribution" if found.refreshes else "")
        yield f"GPU hours   about {total:,.1f}; one target after another {hours(alone)}; {apart} apart"
    if total and (there := found.plan.settings.gpus):
        # No target ends before its own time.
        longest = max(one.hours or 0 for one in known)
        yield f"on {_gpus(there)}  about {hours(max(total / there, longest))}, if all are always at work"
    missing = [one.target.name for one in found.targets.values() if one.hours is None and one.tokens_out]
    if missing:
        yield f"time        not known of {', '.join(missing)}: state tokens_per_second, or run one cell"


def _gpus(number: float) -> str:
    return "1 GPU" if number == 1 else f"{number:g} GPUs"


def hours(number: float) -> str:
    """A time in words, in minutes, hours or days."""
    if number < 1:
        return f"{60 * number:,.0f} min"
    return f"{number:,.1f} h" if number < 48 else f"{number / 24:,.1f} days"


def size(count: float) -> str:
    """Bytes in words."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:,.0f} {unit}"
        count /= 1000
    return f"{count:,.1f} {_UNITS[-1]}"


def status_of(plan: CampaignPlan) -> Iterator[str]:
    """``overbench campaign status``, line by line."""
    out, done = plan.out, plan.done
    working = is_locked(out)
    failed = {name: one for one in failures(out) for name in one.cells}
    running = list(at_work(out).values()) if working else []
    shards = _shards(plan)
    on_ray = {name: one for name, one in shards.items() if one.since and working}
    cells_running = {name for one in running for name in one.cells} | on_ray.keys()
    yield f"{out}: {'at work' if working else 'nobody works on it'}"
    yield (
        f"cells  {len(plan.cells):,}: {len(done):,} done, {len(cells_running):,} running, "
        f"{sum(cell.name in failed and not cell.is_done(out) for cell in plan.cells):,} failed"
    )
    for target in plan.settings.targets:
        of_target = [cell for cell in plan.cells if cell.configuration.target.name == target.name]
        finished = [facts_of(cell, out) for cell in of_target if cell.is_done(out)]
        seconds = sum(facts.seconds for facts in finished)
        yield f"  {target.name}: {len(finished):,} of {len(of_target):,}, {hours(seconds / 3600)}"
    for cell in done:
        if estimates := facts_of(cell, out).estimates:
            yield f"not all asked  {cell.name}: {estimates}"
    for job in running:
        percent, since = progress(job.folder / LOG), hours((time.time() - job.started) / 3600)
        yield f"running  {job.job}: {'starting' if percent is None else f'{percent} %'}, for {since}"
    for name, one in on_ray.items():
        longest = hours((time.time() - min(one.since)) / 3600)
        yield f"running  {name}: {one.kept:,} of {one.of:,} shards, {len(one.since):,} at work, for {longest}"
    if kept := sum(one.kept for one in shards.values()):
        yield f"shards  {kept:,} of {sum(one.of for one in shards.values()):,} of the cells that are not done"
    for failure in failures(out):
        first, *more = failure_lines(failure)
        yield f"failed  {first}"
        yield from more
    yield from (f"failed  set {name}: {printable(why)}" for name, why in plan.problems.items())
    yield from (f"waiting  set {name}: for the refresh of {target}" for name, target in plan.waiting)
    tasks = {since for one in on_ray.values() for since in one.since}
    yield from _expected_end(plan, max(1, len(running) + len(tasks)), shards)


def failure_lines(failure: JobFailure) -> Iterator[str]:
    """Why, the end of what was said, and the command that shows it again; fit for a terminal."""
    yield f"{failure.job}: {printable(failure.why)}"
    if failure.log and (said := last_said(Path(failure.log), _SAID)):
        yield f"  The end of {failure.log}:"
        yield from (f"    {line}" for line in said)
    if failure.command:
        yield f"  To see the error: {failure.command}"


class _CellShards(NamedTuple):
    """Where Ray asks for a cell: its shards that are kept, their prompts, of how many shards; and since when
    others are asked for."""

    kept: int
    prompts: int
    of: int
    since: list[float]


def _shards(plan: CampaignPlan) -> dict[str, _CellShards]:
    """Of each unfinished cell."""
    store = ShardStore(plan.settings.ray.shards or str(plan.out / SHARDS))
    found = {}
    for cell in plan.cells:
        if not cell.is_done(plan.out):
            shards = shards_of(cell, plan.settings.ray.shard_prompts)
            kept, since = store.progress(shards)
            found[cell.name] = _CellShards(len(kept), sum(map(len, kept)), len(shards), since)
    return found


def _expected_end(plan: CampaignPlan, at_once: int, shards: Mapping[str, _CellShards]) -> Iterator[str]:
    """By what finished cells took per prompt, of this target, else by its stated throughput, else of all."""
    facts = [(cell, facts_of(cell, plan.out)) for cell in plan.done]
    cells = {cell.name: cell for cell in plan.cells if cell.name in shards}

    def pace(name: str | None) -> float | None:
        some = [fact for cell, fact in facts if name in (None, cell.configuration.target.name)]
        prompts = sum(fact.prompts for fact in some)
        return sum(fact.seconds for fact in some) / prompts if prompts else None

    def per_prompt(cell: CampaignCell) -> float | None:
        target = cell.configuration.target
        stated = most_tokens(cell) / target.tokens_per_second if target.tokens_per_second else None
        return pace(target.name) or stated or pace(None)

    paces = {name: per_prompt(cell) for name, cell in cells.items()}
    if not paces or None in paces.values():
        return
    seconds = sum(
        (pace or 0) * (cells[name].task_spec.prompts - shards[name].prompts) for name, pace in paces.items()
    )
    end = datetime.fromtimestamp(time.time() + seconds / at_once)
    how = "takes as long as what is done" if facts else "goes as fast as tokens_per_second states"
    more = "; refreshes, and what waits for them, come on top" if plan.unfinished_refreshes() else ""
    yield f"expected end  {end:%Y-%m-%d %H:%M}, if what is left {how}{more}"
