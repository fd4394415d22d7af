"""Intervals by bootstrap: figures of samples drawn with replacement from the rows at hand (Efron 1979).

Callers choose the rows; this module draws and turns the figures of the draws into intervals. Each caller
passes its own generator, so that the same seed gives the same interval.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overbench_tasks.metrics.estimates import Estimate

DRAWS: Final = 2000
"""Unless a figure takes long: the ends of a 95 % interval are then good to about half a percentile."""

Floats = NDArray[np.float64]


def drawn_counts(counts: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Counts of kinds of rows in samples as large as the one at hand, drawn from it with replacement.

    Args:
        counts: (kinds,), how many rows are of each kind, at least one in all; ones where each is its own.

    Returns:
        (draws, kinds).
    """
    rows = counts.sum()
    return generator.multinomial(int(rows), counts / rows, size=draws).astype(np.float64)


def drawn_rows(rows: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(rows,): the places of one such sample's rows, for figures that need the rows themselves."""
    return generator.integers(rows, size=rows)


def with_percentiles(value: float, draws: Floats, n: int | None = None) -> Estimate:
    """A figure with percentiles 2.5 and 97.5 of those draws of it that are defined.

    Args:
        value: of the rows at hand.
        draws: (draws,), of each sample; NaN where it is not defined.
        n: see :class:`Estimate`.

    Returns:
        all NaN where ``value`` is; NaN ends where no draw is defined.
    """
    defined = draws[~np.isnan(draws)]
    if math.isnan(value) or not len(defined):
        return Estimate(math.nan if math.isnan(value) else float(value), math.nan, math.nan, n)
    low, high = np.quantile(defined, [0.025, 0.975]).tolist()
    return Estimate(float(value), low, high, n)
