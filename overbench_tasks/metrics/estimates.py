"""A value with its 95 % interval, and intervals of shares that are computed from counts.

Intervals that need draws come from :mod:`overbench_tasks.metrics.resample`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Z_95 = 1.959963984540054
"""0.975 quantile of the standard normal distribution: two-sided 95 %."""


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval.

    ``f"{estimate:.4f}"`` is ``0.4115 [0.3751, 0.4490]``.

    Attributes:
        value: NaN if undefined.
        low, high: the ends of the interval; NaN without an interval.
        n: how many observations (prompts, replies, models) it rests on; None if not counted.
    """

    value: float
    low: float
    high: float
    n: int | None = None

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def defined(self) -> bool:
        return not math.isnan(self.value)

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]" if self.defined else "undefined"

    def in_percent(self) -> str:
        """``20.0 % [13.6, 28.3]``, of a share."""
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"


UNDEFINED = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True, init=False)
class Rate(Estimate):
    """A share of prompts; NaNs without a prompt.

    Attributes:
        low, high: of Wilson's interval (:func:`wilson_interval`), unless another is due.
        n: prompts with a scored reply.
        successes: prompts that count, such as refused ones in a rate of refusals, or complied ones in a rate
            of compliance; a fraction where a prompt counts by the share of its replies or targets.
    """

    n: int
    successes: float

    def __init__(self, successes: float, n: int, interval: tuple[float, float] | None = None) -> None:
        low, high = wilson_interval(successes, n) if interval is None else interval
        super().__init__(successes / n if n else math.nan, low, high, n)
        object.__setattr__(self, "successes", successes)


def wilson_interval(successes: float, n: float, z: float = Z_95) -> tuple[float, float]:
    """Wilson score interval of a proportion (Wilson 1927), ``(nan, nan)`` for n = 0.

        centre = (p + z²/2n) / (1 + z²/n),  half = z / (1 + z²/n) * sqrt(p(1-p)/n + z²/4n²)

    Unlike the normal interval it stays in [0, 1] and is honest at p = 0 and p = 1.

    Args:
        successes: 0 to n. With several replies per prompt, the sum of per-prompt shares: n counts
            prompts, because replies to one prompt are not independent draws.
        n: number of prompts scored; where rows weigh differently, their effective number.
        z: standard normal quantile.
    """
    if n == 0:
        return math.nan, math.nan
    p = successes / n
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def paired_interval(both: float, only_first: float, only_second: float, n: int) -> tuple[float, float]:
    """95 % interval of the difference of two paired proportions: Newcombe 1998, method 10.

    Joins the two Wilson intervals, with the correlation of the pairs taken into account. It stays in
    [-1, 1] and is honest with few or no differing pairs, where the normal interval has no width.

    Args:
        both, only_first, only_second: pairs of which both are refused, or one only; fractions where pairs are
            of shares, whose spread is at most that of single replies.
        n: all pairs; ``(nan, nan)`` for 0.
    """
    if n == 0:
        return math.nan, math.nan
    neither = n - both - only_first - only_second
    firsts, seconds = both + only_first, both + only_second
    first, second = firsts / n, seconds / n
    low_first, high_first = wilson_interval(firsts, n)
    low_second, high_second = wilson_interval(seconds, n)
    spread = math.sqrt(firsts * (n - firsts) * seconds * (n - seconds))
    association = float(both * neither - only_first * only_second)
    if association > 0:  # Newcombe's continuity correction of phi
        association = max(association - n / 2, 0.0)
    phi = association / spread if spread else 0.0

    def distance(a: float, b: float) -> float:
        # max: rounding may leave a tiny negative number where phi is 1.
        return math.sqrt(max(a * a - 2 * phi * a * b + b * b, 0.0))

    difference = first - second
    low = difference - distance(first - low_first, high_second - second)
    high = difference + distance(high_first - first, second - low_second)
    return max(low, -1.0), min(high, 1.0)
