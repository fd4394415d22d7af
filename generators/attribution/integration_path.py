"""One prompt's path from its baseline to itself: the points so far, the integral through them, where more go.

numpy and scipy only; no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from generators.attribution.attribution_settings import Output

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

Array = npt.NDArray[np.float64]

HALVED: Final = 0.5
"""Pieces of the path are halved whose error is at least this share of the largest one's."""
SHORTEST: Final = 1e-5
"""Shorter pieces are not halved: their ends could not be told apart in float32."""


class IntegrationPath:
    """Points on a path from 0 to 1, at each of which the output and its slope per token are known.

    A cubic spline through the slopes is integrated. How far off it is on a piece of the path, the output
    at its two ends tells, and so where points are missing.

    Attributes:
        wanted: the places, ascending, in [0, 1], whose values are to be added next.
        places: those that have been added, ascending.
        output: what F is.
    """

    def __init__(self, steps: int, output: Output = "log_odds") -> None:
        self.wanted: Array = np.linspace(0, 1, steps)
        self.places: Array = np.empty(0)
        self._log_odds: Array = np.empty(0)
        self.output = output
        self._slopes: Array = np.empty((0, 0))

    def add(self, log_odds: Array, slopes: Array) -> None:
        """Take the values at the wanted places.

        Args:
            log_odds: (places,) of refusal.
            slopes: (places, tokens) what each token adds to dF/da, F the output.
        """
        if len(self.places):
            log_odds = np.concatenate([self._log_odds, log_odds])
            slopes = np.concatenate([self._slopes, slopes])
        places = np.concatenate([self.places, self.wanted])
        order = np.argsort(places)
        self.places, self._log_odds, self._slopes = places[order], log_odds[order], slopes[order]
        self.wanted = np.empty(0)

    @property
    def ends(self) -> tuple[float, float]:
        """Log-odds at 1 and at 0, of the prompt and of its baseline."""
        return float(self._log_odds[-1]), float(self._log_odds[0])

    @property
    def values(self) -> Array:
        """(places,) F."""
        return (1 + np.tanh(self._log_odds / 2)) / 2 if self.output == "probability" else self._log_odds

    def scores(self) -> Array:
        """(tokens,) the integral of each token's slope."""
        return np.asarray(self._spline(self._slopes).integrate(0, 1))

    def errors(self) -> Array:
        """(places - 1,) what the integral of the summed slopes is off by on each piece of the path."""
        integral = self._spline(self._slopes.sum(axis=1)).antiderivative()
        return np.asarray(np.diff(integral(self.places)) - np.diff(self.values))

    def _spline(self, values: Array) -> CubicSpline:
        from scipy.interpolate import CubicSpline  # attributions are also read where nothing is integrated

        return CubicSpline(self.places, values)

    def refine(self, max_steps: int) -> None:
        """Want the middles of the pieces that are off most; none if there would be too many points."""
        errors = np.abs(self.errors())
        errors[np.diff(self.places) < SHORTEST] = 0
        worst = np.argsort(-errors)[: max_steps - len(self.places)]
        worst = np.sort(worst[(errors[worst] > 0) & (errors[worst] >= HALVED * errors.max())])
        self.wanted = (self.places[worst] + self.places[worst + 1]) / 2
