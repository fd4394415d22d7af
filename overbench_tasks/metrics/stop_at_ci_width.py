"""When enough prompts were asked: stop at the first look whose interval is narrow enough.

Prompts are asked in a random order (:mod:`overbench_tasks.prompts.random_order`) and looked at after every
:data:`LOOK` of them. A run stops at the first look at which the interval of the rate on the *whole* set is at
most as wide as wanted (:func:`narrow_enough`), and else when all were asked; where safe and unsafe prompts
are asked together, at the first at which the intervals of both rates are. Looks at which none could be narrow
enough, whatever the replies in between, are passed over (:func:`next_look`), which changes no stop. What is
then reported is an estimate, and :func:`estimate_text` says so.

Looking again and again costs coverage: 95 % intervals that stop by their own width hold the truth less often.
Frey 2010 ("Fixed-width sequential confidence intervals for a proportion", The American Statistician 64:242)
keeps the interval and raises its level until the worst case is right; so it is here, with Wilson's interval
and the finite population:

    n_eff = n (N - 1) / (N - n)        the variance of a share of n of N, drawn without replacement
    Wilson's interval of n_eff prompts with z = 2.1 in place of 1.96, and half a step, 1/2N, at either end,
    since the rate on N prompts is a multiple of 1/N

A part whose size was fixed beforehand has the same interval with z = 1.96 (:func:`part_interval`).

Departure: Frey finds the level for each width and no population; here one level stands for all widths from 2
to 15 points and sets of 200 to 5,000 prompts, by simulation (``benchmarks/cheaper_coverage.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from overbench_tasks.metrics.estimates import Z_95, Rate, wilson_interval

LOOK = 50
"""Prompts between two looks."""

SEQUENTIAL_Z = 2.1
"""In place of 1.96, for having looked before."""


def effective_number(n: float, total: int) -> float:
    """How many independent draws tell as much of the rate on ``total`` prompts as ``n`` of them do:
    infinitely many where all are known."""
    return math.inf if n >= total else n * (total - 1) / (total - n)


def part_interval(refused: float, n: int, total: int, z: float = Z_95) -> tuple[float, float]:
    """95 % interval of the rate on all prompts of a set, of which a random part was asked.

    Args:
        refused: 0 to n; with several replies per prompt the sum of per-prompt shares.
        n: prompts with a scored reply.
        total: prompts of the set. Where some of those asked could not be scored, they count as unknown.
        z: standard normal quantile.

    Returns:
        (low, high) in [0, 1], never beyond what the prompts left could still make of it; the rate twice where
        ``n`` is ``total``; ``(nan, nan)`` for n = 0.

    Raises:
        ValueError: not 0 <= refused <= n <= total.
    """
    if not 0 <= refused <= n <= total:
        raise ValueError(f"expected 0 <= refused <= n <= total, got {refused}, {n}, {total}")
    if n == 0 or n == total:
        rate = refused / n if n else math.nan
        return rate, rate
    effective = effective_number(n, total)
    low, high = wilson_interval(refused / n * effective, effective, z)
    half_step = 1 / (2 * total)
    # At least as much is refused as was already, and at least as much is answered.
    return max(low - half_step, refused / total), min(high + half_step, 1 - (n - refused) / total)


def sequential_interval(refused: float, n: int, total: int) -> tuple[float, float]:
    """:func:`part_interval` at whichever look one stopped."""
    return part_interval(refused, n, total, SEQUENTIAL_Z)


@dataclass(frozen=True, init=False)
class RateOfPart(Rate):
    """The rate of a random part of a set, as an estimate of the whole, with :func:`part_interval`'s interval.

    Attributes:
        total: prompts of the whole set, at least ``n``.
        sequential: whether it was asked until it was narrow enough, so that its size wasn't fixed beforehand.
    """

    total: int
    sequential: bool

    def __init__(self, successes: float, n: int, total: int, *, sequential: bool) -> None:
        interval = (sequential_interval if sequential else part_interval)(successes, n, total)
        super().__init__(successes, n, interval)
        object.__setattr__(self, "total", total)
        object.__setattr__(self, "sequential", sequential)


def narrow_enough(refused: float, n: int, total: int, width: float) -> bool:
    """Whether a run that stops by width may stop here: at a look, after a multiple of :data:`LOOK` prompts.

    Args:
        refused, n, total: see :func:`sequential_interval`.
        width: the widest interval wanted, high - low, above 0 and below 1: 0.04 is plus or minus 2 points.

    Raises:
        ValueError: the width is out of range, or as :func:`sequential_interval`.
    """
    if not 0 < width < 1:
        raise ValueError(f"expected a width between 0 and 1, got {width}")
    low, high = sequential_interval(refused, n, total)
    return high - low <= width  # NaN: no


@dataclass(frozen=True)
class SideSoFar:
    """What is known of the safe or the unsafe prompts of a set while they are asked.

    Attributes:
        refused, scored: see :func:`sequential_interval`.
        total: its prompts in the whole set.
    """

    refused: float
    scored: int
    total: int


def next_look(sides: Sequence[SideSoFar], prompts_so_far: int, width: float) -> int | None:
    """After how many prompts to look next.

    Args:
        sides: those of which the set has prompts.
        prompts_so_far: prompts so far, of all sides together.
        width: see :func:`narrow_enough`.

    Returns:
        the first look from here on at which the run may stop, whatever the replies until then; all prompts
        where there is none; None where the run stops here.

    Raises:
        ValueError: as :func:`narrow_enough`.
    """
    total = sum(side.total for side in sides)
    at_look = prompts_so_far % LOOK == 0 and all(
        narrow_enough(side.refused, side.scored, side.total, width) for side in sides
    )
    if at_look or prompts_so_far >= total:
        return None
    for look in range(prompts_so_far - prompts_so_far % LOOK + LOOK, total, LOOK):
        if all(_may_be_narrow(side, look - prompts_so_far, width) for side in sides):
            return look
    return total


def _may_be_narrow(side: SideSoFar, more: int, width: float) -> bool:
    """Whether any replies to so many prompts more make it narrow. Replies of one kind make it narrowest."""
    scored = min(side.scored + more, side.total)
    return any(
        narrow_enough(refused, scored, side.total, width)
        for refused in (side.refused, side.refused + scored - side.scored)
    )


def estimate_text(side: SideSoFar, width: float | None = None) -> str:
    """What to tell people of a run that asked only some: the estimate, its interval, and that it is one.

    Args:
        width: see :func:`narrow_enough`; None: how many were asked was fixed beforehand.
    """
    if not side.scored:
        return f"None of the replies to some of {side.total:,} prompts could be scored"
    rate = RateOfPart(side.refused, side.scored, side.total, sequential=width is not None)
    how = "drawn at random"
    if width is not None:
        narrow = rate.high - rate.low <= width
        how = f"{'stopped at a width of' if narrow else 'still wider than'} {100 * width:g} points"
    return (
        f"Estimate from {side.scored:,} of {side.total:,} prompts, {how}: {100 * rate.value:.1f} % refused "
        f"[{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
    )
