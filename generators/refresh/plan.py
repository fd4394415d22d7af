"""``--dry_run``: what a refresh will ask whom, how many tokens that is about, and what it may cost."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from generators.refresh.refresh_settings import RefreshSettings
from generators.seeds.seeds import SPLITS, read_seeds, split, split_sizes
from overbench_tasks.text import number_of

REQUEST_TOKENS = 400
"""Of the adversary's prompt without the seed; of a judge's, :data:`JUDGE_TOKENS`."""
JUDGE_TOKENS = 190
REPLY_TOKENS = 20
"""Of one written prompt: the median of this project's own, rounded up."""
VERDICT_TOKENS = 8
SEEDS_OF_A_SOURCE, SEED_TOKENS = 20_000, 40
"""Where seeds are not read: of a built-in set its default, and about as many tokens as HH-RLHF's have."""


class RefreshPlan(NamedTuple):
    """What a refresh asks, at most; tokens are estimates at four characters a token.

    Attributes:
        seeds: by split.
        seed_calls: of the target, for the labels of the seeds.
        jobs: requests to the adversary, per round.
        written: candidates.
        through: prompts that reach the judges and the target.
        judge_calls: of all judges.
        prompt_tokens, completion_tokens: to and from adversary and judges.
        cost: of these, in US dollars.
    """

    seeds: Counter[str]
    seed_calls: int
    jobs: int
    written: int
    through: int
    judge_calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


def refresh_plan(settings: RefreshSettings, *, read: bool = True) -> RefreshPlan:
    """The plan in numbers.

    Args:
        read: read the seeds; without it as many are taken for granted as the settings allow.

    Raises:
        OverbenchError: seeds that cannot be read.
    """
    if read:
        prompts = read_seeds(settings.seeds).prompts
        seeds = Counter(str(seed.split) for seed in split(prompts, settings.seeds))
        mean = sum(map(len, prompts)) / max(1, len(prompts)) / 4
    else:
        count = settings.seeds.limit or SEEDS_OF_A_SOURCE * len(settings.seeds.sources)
        seeds, mean = split_sizes(count, settings.seeds), SEED_TOKENS
    asked = SPLITS if settings.rounds.seeds_by == "target" else SPLITS[:3]
    # Without a limit of requests a round has one for each seed and feature, and more as the seeds grow.
    jobs = settings.rounds.jobs or seeds["generation"] * settings.attribution.top_k
    requests = settings.rounds.rounds * jobs
    written = requests * settings.adversary.candidates
    through = requests * settings.rounds.keep
    judge_calls = through * len(settings.moderation.judges)
    prompt_tokens = int(requests * (REQUEST_TOKENS + mean) + judge_calls * JUDGE_TOKENS)
    completion_tokens = written * REPLY_TOKENS + judge_calls * VERDICT_TOKENS
    prices = settings.prices
    return RefreshPlan(
        *(seeds, sum(seeds[name] for name in asked), jobs, written, through, judge_calls),
        *(prompt_tokens, completion_tokens),
        (prompt_tokens * prices.prompt + completion_tokens * prices.completion) / 1e6,
    )


def plan_lines(settings: RefreshSettings) -> list[str]:
    """The plan, line by line. Reads the seeds; calls nothing that costs.

    Numbers of calls are upper limits, except where they say about.

    Raises:
        OverbenchError: seeds that cannot be read.
    """
    plan, prices, rounds = refresh_plan(settings), settings.prices, settings.rounds.rounds
    sizes = ", ".join(f"{name} {plan.seeds[name]:,}" for name in SPLITS)
    moderation = "nobody: records will say unmoderated" if settings.moderation.none else "by a classifier"
    if plan.judge_calls:
        moderation = f"{number_of(plan.judge_calls, 'judge call')} at most"
    lines = [
        f"target      {settings.target.name}",
        f"seeds       {number_of(plan.seeds.total(), 'prompt')}: {sizes}",
        f"label       {number_of(plan.seed_calls, 'target call')}, labelled by {settings.labeller.by}",
        f"detector    {settings.detector.model}, trained {rounds + 1} times",
        f"generate    {number_of(rounds, 'round')} of {number_of(plan.jobs, 'request')} to "
        f"{settings.adversary.model}, {number_of(settings.adversary.candidates, 'candidate')} each: "
        f"{number_of(plan.written, 'candidate')} at most",
        f"moderate    {moderation}",
        f"verify      {number_of(plan.through, 'target call')} at most, and about "
        f"{settings.rounds.explore:.0%} of what the detector alone turns away",
        f"tokens      about {plan.prompt_tokens:,} in and {plan.completion_tokens:,} out, to adversary "
        "and judges",
        f"cost        about {plan.cost:,.2f} US dollars at {prices.prompt} and {prices.completion} per "
        "million",
    ]
    if settings.rounds.jobs is None:
        lines.append(
            "limit       none: a round goes on until no seed or feature is left. The figures are of the "
            "generation seeds alone; new prompts that become seeds add to them (--jobs, --budget_calls)"
        )
    if settings.budget.calls or settings.budget.tokens:
        limits = {"calls": settings.budget.calls, "tokens": settings.budget.tokens}
        said = ", ".join(f"{number:,} {name}" for name, number in limits.items() if number)
        lines.append(f"budget      ends cleanly at {said}")
    return lines
