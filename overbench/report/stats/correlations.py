"""Rank correlations of two measures of the same targets, with bootstrap intervals.

Over-refusal and safety are such measures (OR-Bench, Cui et al. 2024, reports Spearman's rho of the two),
over-refusal and size are others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from overbench.report.stats.comparisons import DRAWS
from overbench.report.stats.matrix import MISSING
from overbench_tasks.metrics import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST: Final = 3
"""Targets: two always lie in one order or in the other."""


@dataclass(frozen=True)
class RankCorrelation:
    """The rank correlation of two measures: coefficients in [-1, 1], with 95 % percentile intervals. The ends
    of an interval are NaN if no draw has a coefficient.

    Attributes:
        rho: Spearman's (1904): Pearson's coefficient of the ranks, ties with their mean rank.
        tau: Kendall's tau-b (1945), in which a tie of either measure counts for neither order.
        n: targets that have both measures.
    """

    rho: Estimate
    tau: Estimate
    n: int


def rank_correlation(
    first: NDArray[np.float64], second: NDArray[np.float64], *, draws: int = DRAWS, random_seed: int = 0
) -> RankCorrelation | None:
    """Spearman's rho and Kendall's tau-b of two measures of the same targets.

    The intervals cover other targets and other prompts of these kinds. Each draw takes as many targets with
    replacement, and as many prompts of each measure, the same prompts for all targets (Owen 2007, "The
    pigeonhole bootstrap"). A target that is drawn twice ties with itself, and tau-b leaves ties out. Noise in
    the rates shifts both coefficients and their intervals towards 0. With few targets, the intervals are
    wide.

    Args:
        first, second: (P, T) shares of a response matrix, -1 where missing; the measure is the mean of a
            column. Or (T,), a number for each target that is not drawn (its size, say), NaN where unknown.
        draws: the number of resamples. Resamples in which all targets have the same value are skipped.
        random_seed: the same random seed gives the same interval.

    Returns:
        None where :func:`no_correlation` says why.
    """
    import numpy as np
    from scipy.stats import kendalltau, spearmanr

    from overbench_tasks.metrics.resample import drawn_rows, with_percentiles

    def both(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float] | None:
        mask = ~(np.isnan(x) | np.isnan(y))
        x, y = x[mask], y[mask]
        if not _varies(x) or not _varies(y):
            return None
        return float(spearmanr(x, y).statistic), float(kendalltau(x, y).statistic)

    measured = ~(np.isnan(_measure(first)) | np.isnan(_measure(second)))
    n = int(measured.sum())
    first, second = first[..., measured], second[..., measured]
    if n < FEWEST or (observed := both(_measure(first), _measure(second))) is None:
        return None
    generator = np.random.default_rng(random_seed)
    drawn = np.full((draws, 2), np.nan)
    for draw in range(draws):
        chosen = drawn_rows(n, generator)
        pair = both(_of_drawn(first, generator)[chosen], _of_drawn(second, generator)[chosen])
        if pair is not None:
            drawn[draw] = pair
    rho, tau = (with_percentiles(value, of_it, n) for value, of_it in zip(observed, drawn.T, strict=True))
    return RankCorrelation(rho, tau, n)


def no_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> str:
    """The reason why these measures have no rank correlation, for people; "" if they have one."""
    import numpy as np

    x, y = _measure(first), _measure(second)
    mask = ~(np.isnan(x) | np.isnan(y))
    if (n := int(mask.sum())) < FEWEST:
        return f"a rank correlation needs at least {FEWEST} models that have both, and there {_are(n)}"
    if not (_varies(x[mask]) and _varies(y[mask])):
        return f"in one of the two, all {n} models have the same value"
    return ""


def _are(n: int) -> str:
    return {0: "is none", 1: "is 1"}.get(n, f"are {n}")


def _varies(values: NDArray[np.float64]) -> bool:
    return bool(len(values) and (values != values[0]).any())


def _measure(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T,): the mean of each column's scored entries, NaN where there are none; numbers as they are."""
    return _means(values, None) if values.ndim == 2 else values


def _of_drawn(values: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """(T,): the measure over prompts drawn with replacement."""
    import numpy as np

    from overbench_tasks.metrics.resample import drawn_rows

    if values.ndim == 1:
        return values
    rows = drawn_rows(len(values), generator)
    return _means(values, np.bincount(rows, minlength=len(values)).astype(np.float64))


def _means(values: NDArray[np.float64], counts: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """(T,): means over prompts, each counted as often as ``counts`` (P,) says; None: once."""
    import numpy as np

    weights = np.ones(len(values)) if counts is None else counts
    scored = (values != MISSING).astype(np.float64)
    n = weights @ scored
    # The same sum of the same shares is the same rate to the last digit, or ties would come apart.
    sums = weights @ np.maximum(values, 0)
    means: NDArray[np.float64] = np.divide(sums, n, out=np.full(n.shape, np.nan), where=n > 0)
    return means.round(12)
