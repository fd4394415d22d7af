"""The rule that ends a run early: stop at the first look at which the interval is narrow enough.

Prompts are asked in a random order (:mod:`overbench_tasks.prompts.random_order`), and a look follows every
:data:`LOOK` prompts. A run stops at the first look at which the interval of the rate on the *whole* set is at
most as wide as wanted (:func:`narrow_enough`), or after all prompts. If safe and unsafe prompts are asked
together, the intervals of both rates must be narrow enough. A look is skipped if no replies until then could
make the interval narrow enough (:func:`next_look`); this changes no stop. The result is an estimate, and
:func:`estimate_text` says so.

Repeated looks cost coverage: 95 % intervals that stop by their own width contain the true rate less often.
Frey 2010 ("Fixed-width sequential confidence intervals for a proportion", The American Statistician 64:242)
raises the level of the interval until its coverage is 95 % in the worst case. Here this is done with Wilson's
interval and a finite population:

    n_eff = n (N - 1) / (N - n)        the variance of a share of n of N, drawn without replacement
    Wilson's interval of n_eff prompts with z = 2.1 in place of 1.96, and half a step, 1/2N, at either end,
    since the rate on N prompts is a multiple of 1/N

A part whose size was fixed beforehand has the same interval with z = 1.96 (:func:`part_interval`).

Departure: Frey finds a level for each width, for an infinite population. Here one level serves all widths
from 2 to 15 points and sets of 200 to 5,000 prompts, by simulation (``benchmarks/cheaper_coverage.py``).
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
    """The number of independent draws that give as much information on the rate of ``total`` prompts as ``n``
    of these prompts do; infinite if ``n`` is ``total``.
    """
    return math.inf if n >= total else n * (total - 1) / (total - n)


def part_interval(refused: float, n: int, total: int, z: float = Z_95) -> tuple[float, float]:
    """95 % interval of the rate on all prompts of a set, of which a random part was asked.

    Args:
        refused: 0 to n; with several replies per prompt the sum of per-prompt shares.
        n: prompts with a scored reply.
        total: prompts of the set. Prompts that were asked and not scored count as not asked.
        z: standard normal quantile.

    Returns:
        (low, high) in [0, 1], within the rates that the remaining prompts make possible; the rate twice if
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
    """:func:`part_interval` for a run that stopped at any look."""
    return part_interval(refused, n, total, SEQUENTIAL_Z)


@dataclass(frozen=True, init=False)
class RateOfPart(Rate):
    """The rate of a random part of a set, as an estimate of the whole, with :func:`part_interval`'s interval.

    Attributes:
        total: prompts of the whole set, at least ``n``.
        sequential: whether the run stopped by the width of the interval; False if its size was fixed
            beforehand.
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
    """The counts of the safe or the unsafe prompts of a set during a run.

    Attributes:
        refused, scored: see :func:`sequential_interval`.
        total: its prompts in the whole set.
    """

    refused: float
    scored: int
    total: int


def next_look(sides: Sequence[SideSoFar], prompts_so_far: int, width: float) -> int | None:
    """The number of prompts after which to look next.

    Args:
        sides: the sides of which the set has prompts.
        prompts_so_far: prompts so far, of all sides together.
        width: see :func:`narrow_enough`.

    Returns:
        the first later look at which some replies could let the run stop; the number of all prompts if there
        is none; None if the run stops here.

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
    """Whether ``more`` prompts could make the interval narrow enough, with all replies alike."""
    scored = min(side.scored + more, side.total)
    return any(
        narrow_enough(refused, scored, side.total, width)
        for refused in (side.refused, side.refused + scored - side.scored)
    )


def estimate_text(side: SideSoFar, width: float | None = None) -> str:
    """A line for people on a run that asked only a part of the prompts: the estimate and its interval.

    Args:
        width: see :func:`narrow_enough`; None if the number of prompts was fixed beforehand.
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
