"""How prone each prompt is to be refused, by item response theory: the two-parameter logistic model.

    P(target t refuses prompt i) = 1 / (1 + exp(-(a_t theta_i + c_t))),    theta_i ~ N(0, 1)

The model of Birnbaum (1968), fitted by marginal maximum likelihood (Bock and Aitkin 1981): the trait theta of
a prompt is integrated out by Gauss-Hermite quadrature, and is then its mean given the replies (expected a
posteriori, Bock and Mislevy 1982). Usually benchmarks take the models for the persons and the prompts for
the items (Polo et al. 2024, tinyBenchmarks). With a dozen targets and thousands of prompts that leaves a
handful of replies for each parameter; here it is the other way round, two parameters a target. Where all
slopes a_t are alike it is the Rasch model, whose traits are ordered by the share of targets that refuse.

Slopes have a normal prior with standard deviation 2, which keeps them finite where few targets refuse alike;
a target that refuses what the others answer has a negative one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POINTS: Final = 21
"""Of the quadrature."""
SLOPE_SD: Final = 2.0


@dataclass(frozen=True)
class PromptTraits:
    """A fitted model.

    Attributes:
        slopes: (T,), a_t: how much a target's refusals follow the trait.
        intercepts: (T,), c_t: the log-odds that it refuses a prompt of trait 0.
        traits: (P,), the mean of theta given the replies, in standard deviations; 0 for a prompt without any.
    """

    slopes: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    traits: NDArray[np.float64]


def fit_traits(values: NDArray[np.float64]) -> PromptTraits:
    """Fit the model to a response matrix.

    Args:
        values: (P, T) shares of refused replies in [0, 1], -1 where there is none; P and T at least 1.

    Returns:
        the same for the same matrix, to the rounding of the machine.
    """
    import numpy as np
    from scipy.optimize import minimize
    from scipy.special import log_expit, softmax

    patterns, places, times = np.unique(values, axis=0, return_inverse=True, return_counts=True)
    scored = patterns >= 0
    refused = np.where(scored, patterns, 0.0)
    answered: NDArray[np.float64] = scored - refused
    points, weights = np.polynomial.hermite_e.hermegauss(POINTS)
    log_weights = np.log(weights / weights.sum())
    targets = values.shape[1]

    def log_joint(parameters: NDArray[np.float64]) -> NDArray[np.float64]:  # (patterns, POINTS)
        odds = np.outer(parameters[:targets], points) + parameters[targets:, None]  # (T, POINTS)
        joint: NDArray[np.float64] = refused @ log_expit(odds) + answered @ log_expit(-odds) + log_weights
        return joint

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        joint = log_joint(parameters)
        highest = joint.max(axis=1, keepdims=True)
        likelihood = np.log(np.exp(joint - highest).sum(axis=1)) + highest[:, 0]
        posterior = softmax(joint, axis=1) * times[:, None]
        slopes = parameters[:targets]
        odds = np.outer(slopes, points) + parameters[targets:, None]
        surplus = refused.T @ posterior - scored.T @ posterior * np.exp(log_expit(odds))  # (T, POINTS)
        gradient = np.concatenate([surplus @ points - slopes / SLOPE_SD**2, surplus.sum(axis=1)])
        return float((slopes**2).sum() / (2 * SLOPE_SD**2) - times @ likelihood), -gradient

    rates = (refused.sum(axis=0) + 0.5) / (scored.sum(axis=0) + 1)
    start = np.concatenate([np.ones(targets), np.log(rates / (1 - rates))])
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B").x
    traits = (softmax(log_joint(fitted), axis=1) @ points)[places.ravel()]
    return PromptTraits(fitted[:targets], fitted[targets:], traits)
