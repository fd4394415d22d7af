"""``--dry_run``: what a refresh will ask whom, how many tokens that is about, and what it may cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from generators.refresh.paid_calls import (
    CHARS_OF_A_TOKEN,
    JUDGE_TOKENS,
    TARGET_REPLY_TOKENS,
    TEMPLATE_TOKENS,
    paid_calls,
)
from generators.refresh.refresh_settings import PriceSettings, RefreshSettings
from generators.seeds.seeds import SPLITS, read_seeds, split, split_sizes
from overbench_tasks.text import number_of

REQUEST_TOKENS: Final = 400
"""Of the adversary's prompt without the seed; of a moderator's, :data:`VOTE_TOKENS`."""
VOTE_TOKENS: Final = 190
REPLY_TOKENS: Final = 20
"""Of one written prompt: the median of this project's own, rounded up."""
VERDICT_TOKENS: Final = 8
SEEDS_OF_A_SOURCE, SEED_TOKENS = 20_000, 40
"""Where seeds are not read: of a built-in set its default, and about as many tokens as HH-RLHF's have."""


class PaidPart(NamedTuple):
    """What one of those that are paid is asked: calls, and the tokens to and from it."""

    calls: int
    tokens_in: int
    tokens_out: int

    def cost(self, prices: PriceSettings) -> float:
        """In US dollars."""
        return (self.tokens_in * prices.prompt + self.tokens_out * prices.completion) / 1e6


class RefreshPlan(NamedTuple):
    """What a refresh asks, at most; tokens are estimates at four characters a token.

    Attributes:
        seeds: by split.
        seed_calls: of the target, for the labels of the seeds.
        jobs: requests to the adversary, per round.
        written: candidates.
        through: prompts that reach the moderators and the target.
        explored: prompts that the target is asked though the detector turned them away, about.
        paid: what is paid for, as :mod:`generators.refresh.paid_calls` has it: ``writer``, ``moderation``,
            ``labelling`` (about, where rules go first), ``target``; those with no calls, too.
        prices: of the settings.
    """

    seeds: Counter[str]
    seed_calls: int
    jobs: int
    written: int
    through: int
    explored: int
    paid: Mapping[str, PaidPart]
    prices: PriceSettings

    @property
    def target_calls(self) -> int:
        """Of the target, paid for or not."""
        return self.seed_calls + self.through + self.explored

    def cost(self, *parts: str) -> float:
        """Of these parts of :attr:`paid`, or with none named of all, in US dollars."""
        return sum(one.cost(self.prices) for name, one in self.paid.items() if name in (parts or self.paid))


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
        mean = sum(map(len, prompts)) / max(1, len(prompts)) / CHARS_OF_A_TOKEN
    else:
        count = settings.seeds.limit or SEEDS_OF_A_SOURCE * len(settings.seeds.sources)
        seeds, mean = split_sizes(count, settings.seeds), SEED_TOKENS
    rounds, paid, candidates = settings.rounds, paid_calls(settings), settings.adversary.candidates
    asked = SPLITS if rounds.seeds_by == "target" else SPLITS[:3]
    seed_calls = sum(seeds[name] for name in asked)
    # Without a limit of requests a round has one for each seed and feature, and more as the seeds grow.
    jobs = rounds.jobs or seeds["generation"] * settings.attribution.top_k
    requests = rounds.rounds * jobs
    written, through = requests * candidates, requests * min(rounds.keep, candidates)
    explored = round(rounds.explore * (written - through))
    replies = seed_calls + through + explored
    votes, labels = through * paid.votes, round(replies * paid.judged)
    target_calls = replies * paid.target
    said = len(settings.target.system_instruction or "") / CHARS_OF_A_TOKEN
    parts = {
        "writer": PaidPart(requests, int(requests * (REQUEST_TOKENS + mean)), written * REPLY_TOKENS),
        "moderation": PaidPart(votes, votes * VOTE_TOKENS, votes * VERDICT_TOKENS),
        "labelling": PaidPart(labels, *(labels * tokens for tokens in JUDGE_TOKENS)),
        "target": PaidPart(
            target_calls,
            int(target_calls * (mean + said + TEMPLATE_TOKENS)),
            target_calls * (settings.target.max_gen_toks or TARGET_REPLY_TOKENS),
        ),
    }
    return RefreshPlan(seeds, seed_calls, jobs, written, through, explored, parts, settings.prices)


def plan_lines(settings: RefreshSettings) -> list[str]:
    """The plan, line by line. Reads the seeds; calls nothing that costs.

    Numbers of calls are upper limits, except where they say about.

    Raises:
        OverbenchError: seeds that cannot be read.
    """
    plan, prices, rounds = refresh_plan(settings), settings.prices, settings.rounds.rounds
    sizes = ", ".join(f"{name} {plan.seeds[name]:,}" for name in SPLITS)
    moderation = "nobody: records will say unmoderated" if settings.moderation.none else "by a classifier"
    if votes := plan.paid["moderation"].calls:
        moderation = f"{number_of(votes, 'judge call')} at most"
    explored = f", and about {plan.explored:,} that the detector alone turns away" if plan.explored else ""
    paid = {name: one for name, one in plan.paid.items() if one.calls}
    calls = ", ".join(f"{name} {one.calls:,}" for name, one in paid.items())
    about = "about " if 0 < paid_calls(settings).judged < 1 or plan.explored else ""
    tokens_in, tokens_out = (sum(one[place] for one in paid.values()) for place in (1, 2))
    lines = [
        f"target      {settings.target.name}",
        f"seeds       {number_of(plan.seeds.total(), 'prompt')}: {sizes}",
        f"label       {number_of(plan.seed_calls, 'target call')}{_labelled(settings, plan.seed_calls)}",
        f"detector    {settings.detector.model}, trained {rounds + 1} times",
        f"generate    {number_of(rounds, 'round')} of {number_of(plan.jobs, 'request')} to "
        f"{settings.adversary.model}, {number_of(settings.adversary.candidates, 'candidate')} each: "
        f"{number_of(plan.written, 'candidate')} at most",
        f"moderate    {moderation}",
        f"verify      {number_of(plan.through, 'target call')} at most{explored}"
        f"{_labelled(settings, plan.through + plan.explored)}",
        f"paid calls  {about}{sum(one.calls for one in paid.values()):,}: {calls}",
        f"tokens      about {tokens_in:,} in and {tokens_out:,} out, of these calls",
        f"cost        about {plan.cost():,.2f} US dollars, all at {prices.prompt} and {prices.completion} "
        "per million tokens (prices)",
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


def _labelled(settings: RefreshSettings, replies: int) -> str:
    """Who labels so many replies of the target, and by how many paid calls."""
    share = paid_calls(settings).judged
    if not share:
        return f", labelled by {settings.labeller.by}"
    about = "about " if share < 1 else ""
    return f", labelled by {settings.labeller.by}: {about}{number_of(round(share * replies), 'judge call')}"
