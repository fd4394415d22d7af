"""Which calls a refresh pays for: the one rule of the dry run, of the budget, and of a campaign's estimate.

    writer       a request for each (seed, word) that is drawn
    moderation   a vote of each judge on each candidate that reaches the judges
    labelling    a judge's verdict on a reply of the target, to a seed or to a new prompt
    target       a reply of a target behind an API

Rules, classifiers, detectors and models that run on this machine cost nothing. A call counts wherever the
endpoint of a writer or judge is; a target's calls don't where its server is on this machine or its private
network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from generators.refresh.refresh_settings import BudgetSettings, RefreshSettings
from generators.refresh.store import Spent
from generators.targets.target import TargetSettings
from overbench_tasks.chat.endpoint import is_local
from overbench_tasks.providers.model_types import API_TYPES
from overbench_tasks.text import number_of

JUDGE_TOKENS: Final = (605, 16)
"""In and out, of a labelled reply: 510 and 16 as measured with the judge's prompt 1.1 (README of the tasks),
and 95 for what prompt 2.0 adds, at four characters a token."""
CHARS_OF_A_TOKEN: Final = 4
TEMPLATE_TOKENS: Final = 20
"""Of a chat template around a prompt."""
TARGET_REPLY_TOKENS: Final = 128
"""Of a target's reply, for estimates."""


class BudgetSpent(Exception):  # noqa: N818  (no error: the run ends here, cleanly)
    """The budget allows no further call of this stage. What was paid for is kept."""


@dataclass(frozen=True, slots=True)
class PaidCalls:
    """What single steps of a refresh cost, in calls.

    Attributes:
        votes: of one candidate that is moderated.
        target: of one prompt that the target is asked: 1 or 0.
        label: of one reply that is labelled, at most.
        judged: of one reply that is labelled, on average, for estimates.
    """

    votes: int
    target: int
    label: int
    judged: float

    @property
    def verification(self) -> int:
        """Of one prompt that the target is asked and whose reply is labelled, at most."""
        return self.target + self.label

    def spent(self, spent: Spent) -> int:
        """All calls so far."""
        return spent.requests + self.votes * spent.moderated + spent.labelled + spent.asked


def paid_calls(settings: RefreshSettings) -> PaidCalls:
    """What the steps of a refresh with these settings cost."""
    judged = settings.labeller.kind.calls_per_reply
    votes = len(settings.moderation.judges)
    return PaidCalls(votes, int(target_is_paid(settings.target)), math.ceil(judged), judged)


def target_is_paid(target: TargetSettings) -> bool:
    """Whether the target is behind an API, and not one of this machine or its private network."""
    from lm_eval.utils import simple_parse_args_string

    if target.model not in API_TYPES:
        return False
    url = simple_parse_args_string(target.model_args).get("base_url")
    return url is None or not is_local(str(url))


class CallsLeft(NamedTuple):
    """What a budget leaves: calls and tokens, infinite where there is no limit."""

    calls: float
    tokens: float

    def prompts(self, calls: int, tokens: float) -> float:
        """How many prompts it allows that cost so many calls and about so many tokens each; at least 1 as
        long as anything is left."""
        if self.calls < calls or self.tokens <= 0:
            return 0
        allowed = [left / each for left, each in ((self.calls, calls), (self.tokens, tokens)) if each]
        return max(1, min(allowed, default=math.inf) // 1)


def calls_left(budget: BudgetSettings, paid: PaidCalls, spent: Spent) -> CallsLeft:
    """What ``budget`` leaves after what was spent."""
    return CallsLeft(
        (budget.calls or math.inf) - paid.spent(spent), (budget.tokens or math.inf) - spent.tokens
    )


def budget_message(budget: BudgetSettings, paid: PaidCalls, spent: Spent, folder: Path) -> str:
    """That the budget is used up, what for, and how to go on."""
    limits = {name: number for name, number in budget.model_dump().items() if number}
    said = " and ".join(f"{number:,} {name}" for name, number in limits.items())
    options = " ".join(f"--budget_{name} N" for name in limits)
    return (
        f"The budget of {said} ends the run here: {spent_words(paid, spent)}, and the next step could go "
        f"beyond it. All of it is kept. To go on with a larger budget: overbench refresh {folder} {options}"
    )


def spent_words(paid: PaidCalls, spent: Spent) -> str:
    """How many calls were made, of whom, and their tokens."""
    by_whom = {
        "writer": spent.requests,
        "moderation": paid.votes * spent.moderated,
        "labelling": spent.labelled,
        "target": spent.asked,
    }
    calls = ", ".join(f"{name} {count:,}" for name, count in by_whom.items() if count)
    whose = f" ({calls})" if calls else ""
    return f"{number_of(paid.spent(spent), 'paid call')}{whose}, {number_of(spent.tokens, 'token')}"
