"""``--dry_run``: what a campaign will ask and take: calls, tokens, money, GPU hours, disk. Asks nothing.

Four characters count as a token. A target's throughput is what its finished cells have shown, loading it and
replies from a cache included, once they have :data:`ENOUGH` replies or nothing else is known; else what the
settings state. Replies are as long as those of its finished cells with the same
bound on new tokens, else as long as that allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from generators.refresh.estimate import RefreshPlan, refresh_plan
from generators.refresh.paid_calls import (
    CHARS_OF_A_TOKEN,
    JUDGE_TOKENS,
    TARGET_REPLY_TOKENS,
    TEMPLATE_TOKENS,
)
from overbench.campaign.campaign_cells import CampaignCell, cells_of
from overbench.campaign.campaign_plan import CampaignPlan
from overbench.campaign.finished_cells import CellFacts, facts_of
from overbench.campaign.target_settings import CampaignTarget
from overbench.campaign.task_specs import MEAN_CHARS, stated_set
from overbench_tasks.errors import OverbenchError
from overbench_tasks.text import number_of

LOG_BYTES, CACHE_BYTES = 2_000, 400
"""Of a reply in the sample log and in the cache, beside the texts."""
ENOUGH: Final = 5_000
"""Replies beside which the time to load a model counts for little."""


@dataclass
class TargetEstimate:
    """What is left to ask one target.

    Attributes:
        cells, calls: as many.
        tokens_in, tokens_out: of these calls.
        refresh_calls: those of its refresh, at most; not among ``calls``, but their tokens are in the others.
        refresh_judged: replies to these that a judge labels.
        tokens_per_second: None: neither measured nor stated.
        measured: whether its finished cells showed that.
        shown: what they have shown, also where it is too little to go by; None for nothing.
        disk: bytes of logs and caches.
        shards: bytes, at most, of the finished parts of cells that Ray keeps beside these.
    """

    target: CampaignTarget
    cells: int = 0
    calls: int = 0
    tokens_in: float = 0
    tokens_out: float = 0
    refresh_calls: int = 0
    refresh_judged: int = 0
    tokens_per_second: float | None = None
    measured: bool = False
    shown: float | None = None
    disk: float = 0
    shards: float = 0

    @property
    def hours(self) -> float | None:
        """How long its GPUs, or its server, work."""
        return None if self.tokens_per_second is None else self.tokens_out / self.tokens_per_second / 3600

    @property
    def gpu_hours(self) -> float:
        return (self.hours or 0) * self.target.gpus

    @property
    def cost(self) -> float:
        """US dollars, where the target has a price."""
        price = self.target.prices
        return (
            0 if price is None else (self.tokens_in * price.prompt + self.tokens_out * price.completion) / 1e6
        )


@dataclass
class CampaignEstimate:
    """What is left of a campaign.

    Attributes:
        done: finished cells.
        refreshes: of those still to be made.
        unknown: sets of which nobody knows how many prompts they have, with the reason.
        sets: name in the file -> the name of each such set that is left to ask, with its prompts, of how many
            they were drawn (0: all are asked), and its cells.
        assumed: what was taken for granted.
        like_earlier: whether some replies count by the length of earlier ones, not by what is allowed.
    """

    plan: CampaignPlan
    targets: dict[str, TargetEstimate]
    done: int = 0
    refreshes: dict[str, RefreshPlan] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    sets: dict[str, dict[str, tuple[int, int, int]]] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)
    like_earlier: bool = False

    @property
    def refresh_judge_calls(self) -> int:
        """Of the refreshes' labeller; those of their moderation are in :attr:`refreshes`."""
        return sum(one.refresh_judged for one in self.targets.values())

    @property
    def judge_calls(self) -> int:
        """Of all labellers."""
        share = self.plan.settings.labeller.kind.calls_per_reply
        return round(share * sum(one.calls for one in self.targets.values())) + self.refresh_judge_calls

    @property
    def judge_cost(self) -> float:
        price, (tokens_in, tokens_out) = self.plan.settings.prices, JUDGE_TOKENS
        return self.judge_calls * (tokens_in * price.prompt + tokens_out * price.completion) / 1e6


def estimate(plan: CampaignPlan) -> CampaignEstimate:
    """Add up what is left. Sets that can't be read count by what is stated of them."""
    found = CampaignEstimate(plan, {one.name: TargetEstimate(one) for one in plan.settings.targets})
    facts: dict[str, list[CellFacts]] = {}
    bounded: dict[tuple[str, float], list[CellFacts]] = {}
    left: list[CampaignCell] = []
    for cell in plan.cells:
        if cell.is_done(plan.out):
            name, shown = cell.configuration.target.name, facts_of(cell, plan.out)
            facts.setdefault(name, []).append(shown)
            bounded.setdefault((name, most_tokens(cell)), []).append(shown)
            found.done += 1
        else:
            left.append(cell)
    _refreshes(found)
    left += _not_there_yet(found)
    length = {which: _reply_tokens(some) for which, some in bounded.items()}
    for name, one in found.targets.items():
        seconds = sum(fact.seconds for fact in facts.get(name, []))
        tokens = sum(fact.reply_chars for fact in facts.get(name, [])) / CHARS_OF_A_TOKEN
        one.shown = tokens / seconds if seconds else None
        stated, replies = one.target.tokens_per_second, sum(fact.prompts for fact in facts.get(name, []))
        one.measured = one.shown is not None and (stated is None or replies >= ENOUGH)
        one.tokens_per_second = one.shown if one.measured else stated
    widths = {cell.task_spec.name: cell.task_spec for cell in left if cell.task_spec.stop_at_ci_width}
    for name, one_set in widths.items():
        found.assumed.append(
            f"set {name}: all of {number_of(one_set.prompts, 'prompt')}, though a cell stops once its "
            f"interval is {100 * one_set.stop_at_ci_width:g} points wide"
        )
    for cell in left:
        name, most = cell.configuration.target.name, most_tokens(cell)
        found.like_earlier |= (name, most) in length
        _add(found.targets[name], cell, length.get((name, most), most))
        asked = cell.task_spec
        of_name = found.sets.setdefault(
            asked.name.removesuffix(cell.of_refreshed and f"-{cell.of_refreshed}"), {}
        )
        of_name[asked.name] = asked.prompts, asked.drawn_of, of_name.get(asked.name, (0, 0, 0))[2] + 1
    return found


def _reply_tokens(facts: Iterable[CellFacts]) -> float:
    some = list(facts)
    return sum(one.reply_chars for one in some) / max(1, sum(one.prompts for one in some)) / CHARS_OF_A_TOKEN


def most_tokens(cell: CampaignCell) -> float:
    """Of one reply."""
    return float(cell.configuration.gen_kwargs.get("max_gen_toks", cell.task_spec.max_gen_toks))


def _add(one: TargetEstimate, cell: CampaignCell, reply: float) -> None:
    asked = cell.task_spec
    before = len(cell.configuration.system_text) + asked.mean_chars
    one.cells += 1
    one.calls += asked.prompts
    one.tokens_in += asked.prompts * (before / CHARS_OF_A_TOKEN + TEMPLATE_TOKENS)
    one.tokens_out += asked.prompts * reply
    texts = 3 * before + 2 * reply * CHARS_OF_A_TOKEN
    one.disk += asked.prompts * (LOG_BYTES + CACHE_BYTES + texts)
    one.shards += asked.prompts * (LOG_BYTES + texts)


def _refreshes(found: CampaignEstimate) -> None:
    """The plans of refreshes that are still to be made, and the calls of their targets."""
    plan = found.plan
    unread: dict[str, str] = {}
    for name in plan.unfinished_refreshes():
        one = found.targets[name]
        settings = plan.settings.refresh_of(one.target)
        assert settings is not None
        sources = ", ".join(settings.seeds.sources)
        try:
            known = refresh_plan(settings, read=sources not in unread)
        except OverbenchError as error:
            known = refresh_plan(settings, read=False)
            unread[sources] = (
                f"{number_of(known.seeds.total(), 'seed')} of {sources}, which can't be read here: "
                f"{str(error).partition('. ')[0]}"
            )
        found.refreshes[name] = known
        one.refresh_calls = known.target_calls
        one.refresh_judged = known.paid["labelling"].calls
        one.tokens_in += one.refresh_calls * (_mean_chars(found) / CHARS_OF_A_TOKEN + TEMPLATE_TOKENS)
        one.tokens_out += one.refresh_calls * TARGET_REPLY_TOKENS
    found.assumed += unread.values()


def _mean_chars(found: CampaignEstimate) -> float:
    """Mean characters of the prompts that are there; of none, what is taken for granted."""
    lengths = [cell.task_spec.mean_chars for cell in found.plan.cells]
    return sum(lengths) / len(lengths) if lengths else MEAN_CHARS


def _not_there_yet(found: CampaignEstimate) -> list[CampaignCell]:
    """Cells of sets whose prompts can't be read, or are still to be refreshed, by their stated sizes."""
    plan, cells = found.plan, []
    for name, why in plan.problems.items():
        stated = stated_set(name, plan.settings.set_settings(name))
        if stated is None:
            found.unknown[name] = why
        else:
            prompts = number_of(stated.prompts, "prompt")
            found.assumed.append(f"set {name}: {prompts}, which can't be read now")
            cells += cells_of(plan.settings, name, [stated])
    for name, target in plan.waiting:
        one = plan.settings.set_settings(name)
        most = one.prompts or found.refreshes[target].through
        stated = stated_set(f"{name}-{target}", one.model_copy(update={"prompts": most}))
        if stated is not None:
            cells += cells_of(plan.settings, name, [stated], [target])
    return cells
