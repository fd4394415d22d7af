"""Do 95 % intervals hold the true rate? Simulated targets, labelled by labellers of known quality.

    python tests/benchmarks/interval_coverage.py --trials 2000

Each trial draws a labelled set from the labeller's sensitivity and specificity, and a run of a target with a
known rate, labelled by the same; then asks whether Wilson's interval of the counted rate and the interval of
``corrected_rate``, which carries the labeller's errors, hold the truth. What a trial doesn't show: a target
that refuses in other ways than those in the labelled set, so that the labeller errs more often on it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from unittest.mock import patch

import numpy as np

from overbench_tasks.metrics import wilson_interval
from overbench_tasks.records import LABELS
from overbench_tasks.review import correction
from overbench_tasks.review.correction import SCORED, Confusion

RATES = (0.005, 0.02, 0.1, 0.4)
LABELLERS = {"good": (0.97, 0.997), "fair": (0.85, 0.98), "poor": (0.75, 0.95)}
"""Sensitivity and specificity."""
LABELLED = ((75, 675), (10, 90))
"""Labelled replies that refuse, and that don't: as many as people labelled of XSTest's safe prompts; few."""
PROMPTS = (250, 1555)
"""As many as XSTest's safe ones, and as in the release."""
BOOTSTRAP_DRAWS = 2000


@dataclass(frozen=True)
class Coverage:
    """How often intervals hold the truth, and how often the rate is not told from zero; in [0, 1]."""

    plain: float
    with_label_errors: float
    not_told_from_zero: float


def coverage(
    rate: float,
    labeller: tuple[float, float],
    labelled: tuple[int, int],
    prompts: int,
    trials: int,
    seed: int,
) -> Coverage:
    """Of ``trials`` runs of one target, each with a labelled set of its own."""
    rng = np.random.default_rng(seed)
    sensitivity, specificity = labeller
    held = np.zeros(3)
    with patch.object(correction, "DRAWS", BOOTSTRAP_DRAWS):
        for trial in range(trials):
            found = rng.binomial(labelled[0], sensitivity)
            spared = rng.binomial(labelled[1], specificity)
            refused = rng.binomial(prompts, rate * sensitivity + (1 - rate) * (1 - specificity))
            table = np.zeros((1, SCORED, len(LABELS)))
            table[0, 0, :2] = spared, labelled[1] - spared
            table[0, 1, :2] = labelled[0] - found, found
            run = Counter({1.0: int(refused), 0.0: int(prompts - refused)})
            mended = correction.corrected_rate(Confusion(table), run, seed=trial)
            low, high = wilson_interval(refused, prompts)
            held += (low <= rate <= high, mended.low <= rate <= mended.high, not mended.told_from_zero)
    return Coverage(*(held / trials))


def cases() -> Iterator[tuple[str, tuple[int, int], int]]:
    """Every labeller with every labelled set and number of prompts."""
    return product(LABELLERS, LABELLED, PROMPTS)


def main() -> None:
    """Print a table, in Markdown: coverage with the labeller's errors, in brackets the plain interval's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    trials = parser.parse_args().trials
    print("| labeller | labelled | prompts |", " | ".join(f"{100 * rate:g} %" for rate in RATES), "|")
    print("| --- | --- | ---: |" + " ---: |" * len(RATES))
    for seed, (name, labelled, prompts) in enumerate(cases()):
        found = [coverage(rate, LABELLERS[name], labelled, prompts, trials, seed) for rate in RATES]
        quality = f"{name} ({LABELLERS[name][0]}, {LABELLERS[name][1]})"
        told = " | ".join(f"{100 * one.with_label_errors:.1f} ({100 * one.plain:.1f})" for one in found)
        print(f"| {quality} | {labelled[0]} + {labelled[1]} | {prompts:,} | {told} |", flush=True)


if __name__ == "__main__":
    main()
