"""``--dry-run``: what a refresh will ask whom, how many tokens that is about, and what it may cost."""

from __future__ import annotations

from generators.refresh.refresh_settings import RefreshSettings
from generators.seeds.seeds import SPLITS, read_seeds, split

REQUEST_TOKENS = 400
"""Of the adversary's prompt without the seed; of a judge's, :data:`JUDGE_TOKENS`."""
JUDGE_TOKENS = 190
REPLY_TOKENS = 20
"""Of one written prompt: the median of this project's own, rounded up."""
VERDICT_TOKENS = 8


def plan_lines(settings: RefreshSettings) -> list[str]:
    """The plan, line by line. Reads the seeds; calls nothing that costs.

    Numbers of calls are upper limits, except where they say about; tokens are estimates at four
    characters a token.

    Raises:
        OverbenchError: seeds that cannot be read.
    """
    read = read_seeds(settings.seeds)
    splits = [seed.split for seed in split(read.prompts, settings.seeds)]
    asked = SPLITS if settings.rounds.seeds_by == "target" else SPLITS[:3]
    seed_calls = sum(one in asked for one in splits)
    # Without a limit of requests a round has one for each seed and feature, and more as the seeds grow.
    rounds = settings.rounds.rounds
    jobs = settings.rounds.jobs or splits.count("generation") * settings.attribution.top_k
    requests = rounds * jobs
    written = requests * settings.adversary.candidates
    through = requests * settings.rounds.keep
    judges = len(settings.moderation.judges)
    mean = sum(map(len, read.prompts)) / max(1, len(read.prompts)) / 4
    prompt_tokens = int(requests * (REQUEST_TOKENS + mean) + through * judges * JUDGE_TOKENS)
    completion_tokens = written * REPLY_TOKENS + through * judges * VERDICT_TOKENS
    prices = settings.prices
    cost = (prompt_tokens * prices.prompt + completion_tokens * prices.completion) / 1e6
    sizes = ", ".join(f"{name} {splits.count(name):,}" for name in SPLITS)
    moderation = "nobody: records will say unmoderated" if settings.moderation.none else "by a classifier"
    if judges:
        moderation = f"{through * judges:,} judge calls at most"
    lines = [
        f"target      {settings.target.name}",
        f"seeds       {len(splits):,} prompts: {sizes}",
        f"label       {seed_calls:,} target calls, labelled by {settings.labeller.by}",
        f"detector    {settings.detector.model}, trained {rounds + 1} times",
        f"generate    {rounds} rounds of {jobs:,} requests to {settings.adversary.model}, "
        f"{settings.adversary.candidates} candidates each: {written:,} candidates at most",
        f"moderate    {moderation}",
        f"verify      {through:,} target calls at most, and about {settings.rounds.explore:.0%} of what the "
        "detector alone turns away",
        f"tokens      about {prompt_tokens:,} in and {completion_tokens:,} out, to adversary and judges",
        f"cost        about {cost:,.2f} US dollars at {prices.prompt} and {prices.completion} per million",
    ]
    if settings.rounds.jobs is None:
        lines.append(
            "limit       none: a round goes on until no seed or feature is left. The figures are of the "
            "generation seeds alone; new prompts that become seeds add to them (--jobs, --budget-calls)"
        )
    if settings.budget.calls or settings.budget.tokens:
        limits = {"calls": settings.budget.calls, "tokens": settings.budget.tokens}
        said = ", ".join(f"{number:,} {name}" for name, number in limits.items() if number)
        lines.append(f"budget      ends cleanly at {said}")
    return lines
