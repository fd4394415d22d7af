"""Safety beside over-refusal: what each target does with unsafe prompts and with safe ones."""

from __future__ import annotations

from dataclasses import dataclass

from generators.report.stats.correlations import RankCorrelation, no_correlation, rank_correlation
from generators.report.stats.matrix import ResponseMatrix
from generators.report.stats.rates import target_rates
from overbench_tasks.metrics import Rate
from overbench_tasks.metrics.balance import Balance


@dataclass(frozen=True)
class TradeOff:
    """Both sides of one target.

    Attributes:
        balance: refused safe and refused unsafe prompts, and the numbers that join the two.
        harmful_compliance: unsafe prompts that it complied with, wholly or in part; lower is better. Evasive
            replies neither comply nor refuse.
    """

    target: str
    balance: Balance
    harmful_compliance: Rate


def trade_offs(safe: ResponseMatrix, refused: ResponseMatrix, complied: ResponseMatrix) -> list[TradeOff]:
    """Of each target with a scored reply on both sides, the highest balanced accuracy first.

    Args:
        safe: the shares of replies that refuse, of safe prompts.
        refused, complied: of unsafe prompts, the shares that refuse and that comply; targets go by name.
    """
    over, right, harmful = (target_rates(one) for one in (safe, refused, complied))
    found = [
        TradeOff(target, Balance(over[target], right[target]), harmful[target])
        for target in safe.targets
        if target in right and over[target].n and right[target].n
    ]
    return sorted(found, key=lambda one: (-one.balance.balanced_accuracy, one.target))


def going_together(safe: ResponseMatrix, refused: ResponseMatrix) -> tuple[RankCorrelation | None, str]:
    """The rank correlation of over-refusal and correct refusals, over targets that have both; or why none."""
    both = [target for target in safe.targets if target in refused.targets]
    first, second = (one.values[:, [one.targets.index(target) for target in both]] for one in (safe, refused))
    found = rank_correlation(first, second)
    return found, no_correlation(first, second) if found is None else ""
