"""The paper's campaign, ``overbench/campaign/paper.yaml``, on paper: what bounds it on its GPUs.

    python benchmarks/campaign_paper.py

By what ``campaign_scale.py --keep`` has measured, by the throughput that the file states, and by the rates
below, which are stated, too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from campaign_scale import DRIVER_STEPS, HERE, KEPT

from generators.refresh.paid_calls import TARGET_REPLY_TOKENS
from overbench.campaign.campaign_estimate import CampaignEstimate, TargetEstimate, estimate
from overbench.campaign.campaign_plan import make_plan
from overbench.campaign.campaign_settings import load_campaign
from overbench_tasks.labellers.two_stage import SHARE_OF_JUDGE

SHARD_PROMPTS = (50_000, 150_000)
"""The default, and shards of about half an hour at 10,000 tokens a second."""
REPLIES = "replies of their targets"


class Rates(NamedTuple):
    """What is stated; what is per second is in each shard or refresh."""

    load_minutes: float = 3
    judged_per_second: float = 60
    written_per_second: float = 20
    training_minutes: float = 10
    attributed_per_second: float = 50


def paper_table(rates: Rates) -> list[str]:
    """GPU hours by what takes them, core hours, and how long all of it is at least."""
    settings = load_campaign(HERE.parent / "overbench" / "campaign" / "paper.yaml")
    costs = estimate(make_plan(settings, Path("nowhere")))
    targets, gpus = list(costs.targets.values()), settings.gpus or 1

    def held(hours: Callable[[TargetEstimate], float]) -> float:
        return sum(target.target.gpus * hours(target) for target in targets)

    refreshes = {target.target.name: _refresh(target, costs, rates) for target in targets}
    by_part = {
        part: held(lambda target, part=part: refreshes[target.target.name][part])
        for part in refreshes[targets[0].target.name]
    }
    longest = max(sum(parts.values()) for parts in refreshes.values())
    first = max(sum(by_part.values()) / gpus, longest)
    asking = sum(target.gpu_hours for target in targets) - by_part[REPLIES]
    loading = {
        size: held(
            lambda target, size=size: rates.load_minutes / 60 * _runs(target.calls, target.cells, size)
        )
        for size in SHARD_PROMPTS
    }
    judging = held(lambda target: target.calls * SHARE_OF_JUDGE / rates.judged_per_second / 3600)
    calls = sum(target.calls for target in targets)
    in_refreshes = sum(target.refresh_calls for target in targets)
    whole = json.loads(KEPT.read_text())["whole"][-1]
    per_prompt = sum(whole["steps"].values()) / whole["prompts"]
    driver = sum(whole["steps"].get(step, 0) for step in DRIVER_STEPS) / whole["prompts"]
    alone = (asking + loading[SHARD_PROMPTS[-1]]) / gpus
    load = f"cells: loading models, {rates.load_minutes:g} minutes each, shards of"
    rows = {
        "calls of targets": f"{calls:,} in cells, {in_refreshes:,} in refreshes",
        "cells: generating, as paper.yaml states throughput": f"{asking:,.0f} GPU hours",
        **{f"{load} {size:,}": f"{hours:,.0f} GPU hours" for size, hours in loading.items()},
        f"cells: waiting for the judge, {rates.judged_per_second:g}/s": f"{judging:,.0f} GPU hours",
        **{f"refreshes: {part}": f"{hours:,.0f} GPU hours" for part, hours in by_part.items()},
        "lm_eval, labels, files, Ray, driver": f"{calls * per_prompt / 3600:,.1f} core hours",
        "of it in the driver": f"{calls * driver / 3600:,.1f} core hours",
        f"{gpus:g} GPUs: refreshes, before which no set of theirs is asked": f"at least {first:,.1f} h",
        f"then all cells, shards of {SHARD_PROMPTS[-1]:,}": f"{alone + judging / gpus:,.1f} h",
        "the same, judged afterwards": f"{alone:,.1f} h",
    }
    return [
        "| the paper's campaign | |",
        "| --- | ---: |",
        *(f"| {name} | {text} |" for name, text in rows.items()),
    ]


def _refresh(target: TargetEstimate, costs: CampaignEstimate, rates: Rates) -> dict[str, float]:
    """Hours of a target's refresh by part; they come one after another, and all hold its GPUs."""
    plan, settings = costs.refreshes[target.target.name], costs.plan.settings.refreshes[target.target.name]
    assert settings is not None and target.tokens_per_second
    requests, count = settings.rounds.rounds * plan.jobs, len(costs.refreshes)
    trainings = settings.rounds.rounds + 1
    seeds = requests // settings.attribution.top_k  # a request for each of a seed's words
    speeds = (
        (requests, rates.written_per_second, "requests of the writer"),
        (plan.paid["moderation"].calls, rates.judged_per_second, "calls of moderation"),
        (target.refresh_judged, rates.judged_per_second, "labels of the judge"),
        (seeds, rates.attributed_per_second, "attributed seeds"),
    )
    minutes = rates.training_minutes
    return {
        REPLIES: target.refresh_calls * TARGET_REPLY_TOKENS / target.tokens_per_second / 3600,
        f"{count * trainings} trainings of detectors, {minutes:g} minutes each": minutes * trainings / 60,
        **{f"{count * each:,.0f} {what}, {speed:g}/s": each / speed / 3600 for each, speed, what in speeds},
    }


def _runs(calls: int, cells: int, shard_prompts: int) -> int:
    """lm_evals of a target: whole sets are packed, longer ones cut."""
    prompts = calls // cells
    if prompts > shard_prompts:
        return cells * -(-prompts // shard_prompts)
    return -(-cells // (shard_prompts // prompts))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in Rates()._asdict().items():
        parser.add_argument(f"--{name}", type=float, default=default, help="default: %(default)s")
    print("\n".join(paper_table(Rates(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
