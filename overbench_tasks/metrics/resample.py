"""Bootstrap intervals: statistics of samples drawn with replacement from the rows (Efron 1979).

Callers choose the rows. This module draws samples, and turns their statistics into intervals. Each caller
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
    """Counts of each kind of row in samples of the same size, drawn with replacement.

    Args:
        counts: (kinds,), the number of rows of each kind, with a sum of at least 1; all 1 if every row is a
            kind.

    Returns:
        (draws, kinds).
    """
    rows = counts.sum()
    return generator.multinomial(int(rows), counts / rows, size=draws).astype(np.float64)


def drawn_rows(rows: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(rows,): the row indices of one such sample, for statistics that need the rows themselves."""
    return generator.integers(rows, size=rows)


def with_percentiles(value: float, draws: Floats, n: int | None = None) -> Estimate:
    """A value with the percentiles 2.5 and 97.5 of its defined draws as its interval.

    Args:
        value: the statistic of the original rows.
        draws: (draws,), the statistic of each sample; NaN if it is undefined.
        n: see :class:`Estimate`.

    Returns:
        all NaN if ``value`` is NaN; NaN ends if no draw is defined.
    """
    defined = draws[~np.isnan(draws)]
    if math.isnan(value) or not len(defined):
        return Estimate(math.nan if math.isnan(value) else float(value), math.nan, math.nan, n)
    low, high = np.quantile(defined, [0.025, 0.975]).tolist()
    return Estimate(float(value), low, high, n)
