"""Which trigger words set each target off most, on a scale that is the same for all of them.

The numbers of the paper's figure 3 (Pu et al. 2025): a heat map of the top 20 features by within-model
percentile of the prompts refused. How ties, rare features and the choice of the twenty are treated is our
own decision, written below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generators.report.stats.matrix import REFUSED, ResponseMatrix
from generators.report.stats.rates import MIN_FEATURE_PROMPTS, feature_index

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class FeaturePercentiles:
    """The top features.

    Attributes:
        features: (F,), highest mean percentile first.
        targets: (T,), as in the matrix.
        percentiles: float (F, T), in (0, 100). Of all features ranked, the share with fewer refused
            prompts of this target, plus half the share with as many, itself included. NaN for a
            target that has refused no prompt with any of them: it puts nothing in an order.
        ranked: how many features were ranked.
    """

    features: tuple[str, ...]
    targets: tuple[str, ...]
    percentiles: NDArray[np.float64]
    ranked: int


def feature_percentiles(
    matrix: ResponseMatrix, top: int = 20, min_prompts: int = MIN_FEATURE_PROMPTS
) -> FeaturePercentiles:
    """The ``top`` features by mean percentile over targets.

    Within each target, features are ranked by how many prompts that carry them it refused, so a common
    feature ranks higher than a rare one of the same rate: for rates see
    :func:`generators.report.stats.rates.osr_by_feature`. A prompt a target has not answered counts as no
    refusal here; compare targets only where gaps are few. Equal means: the feature with more refusals
    over all targets first, then by name.

    Args:
        matrix: see there.
        top: how many features; fewer where there aren't so many.
        min_prompts: features that fewer prompts carry are dropped before ranking.
    """
    import numpy as np
    from scipy.stats import rankdata

    index = feature_index(matrix, min_prompts)
    ranked, targets = len(index.features), len(matrix.targets)
    refusals = np.zeros((ranked, targets), dtype=np.int64)
    for place in range(targets):
        refusals[:, place] = index.count(matrix.values[:, place] == REFUSED)
    percentiles = np.full((ranked, targets), np.nan)
    ordered = np.flatnonzero(refusals.any(axis=0))
    if len(ordered):
        # The middle rank of equal counts, less the half that the feature itself takes up.
        percentiles[:, ordered] = 100 * (rankdata(refusals[:, ordered], axis=0) - 0.5) / ranked
    means = percentiles[:, ordered].mean(axis=1) if len(ordered) else np.zeros(ranked)
    totals = refusals.sum(axis=1)
    order = sorted(
        range(ranked), key=lambda row: (-round(float(means[row]), 9), -totals[row], index.features[row])
    )
    best = np.array(order[:top], dtype=np.int64)
    return FeaturePercentiles(
        tuple(index.features[row] for row in best),
        matrix.targets,
        percentiles[best],
        ranked,
    )
