"""When enough prompts were asked: stop at the first look whose interval is narrow enough.

Prompts are asked in a random order (:func:`random_order`) and looked at after every :data:`LOOK` of them. A
run stops at the first look at which the interval of the rate on the *whole* set is at most as wide as wanted
(:func:`narrow_enough`), and else when all were asked. What it then reports is an estimate, and
:func:`stopped_early` says so.

Looking again and again costs coverage: 95 % intervals that stop by their own width hold the truth less often.
Frey 2010 ("Fixed-width sequential confidence intervals for a proportion", The American Statistician 64:242)
keeps the interval and raises its level until the worst case is right; so it is here, with Wilson's interval
and the finite population:

    n_eff = n (N - 1) / (N - n)        the variance of a share of n of N, drawn without replacement
    Wilson's interval of n_eff prompts with z = 2.1 in place of 1.96, and half a step, 1/2N, at either end,
    since the rate on N prompts is a multiple of 1/N

Departure: Frey finds the level for each width and no population; here one level stands for all widths from 2
to 15 points and sets of 200 to 5,000 prompts, by simulation (``tests/benchmarks/cheaper_coverage.py``).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

from overbench_tasks.metrics.refusal_rates import wilson_interval

LOOK = 50
"""Prompts between two looks."""

SEQUENTIAL_Z = 2.1
"""In place of 1.96, for having looked before."""


def random_order(ids: Iterable[str], seed: int = 0) -> list[str]:
    """The ids in an order that only they and the seed decide, by SHA-256: the same on every machine, whatever
    order they came in, and with an id more or less the others keep their places."""
    return sorted(
        ids, key=lambda one: hashlib.sha256(f"{seed}:{one}".encode("utf-8", "surrogatepass")).digest()
    )


def effective_number(n: float, total: int) -> float:
    """How many independent draws tell as much of the rate on ``total`` prompts as ``n`` of them do:
    infinitely many where all are known."""
    return math.inf if n >= total else n * (total - 1) / (total - n)


def sequential_interval(refused: float, n: int, total: int) -> tuple[float, float]:
    """95 % interval of the rate on all prompts of a set, at whichever look one stopped.

    Args:
        refused: 0 to n; with several replies per prompt the sum of per-prompt shares.
        n: prompts with a scored reply so far, a random part of the set.
        total: prompts of the set. Where some of those asked could not be scored, they count as unknown.

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
    low, high = wilson_interval(refused / n * effective, effective, SEQUENTIAL_Z)
    half_step = 1 / (2 * total)
    # At least as much is refused as was already, and at least as much is answered.
    return max(low - half_step, refused / total), min(high + half_step, 1 - (n - refused) / total)


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


def stopped_early(refused: float, n: int, total: int, width: float) -> str:
    """What to tell people of a run that stopped: the estimate, its interval, and that it is one."""
    low, high = sequential_interval(refused, n, total)
    return (
        f"Estimate from {n:,} of {total:,} prompts, stopped at a width of {100 * width:g} points: "
        f"{100 * refused / n:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
    )
