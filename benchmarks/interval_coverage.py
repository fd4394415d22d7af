"""Do 95 % intervals hold the true rate? Simulated targets, labelled by labellers of known quality.

    python benchmarks/interval_coverage.py --trials 2000

Each trial draws a labelled set from the labeller's sensitivity and specificity, and a run of a target with a
known rate, labelled by the same; then asks whether Wilson's interval of the counted rate and the interval of
``corrected_rate``, which carries the labeller's errors, hold the truth, and how wide they are. A labelled set
by which no rate can be corrected is drawn anew. What a trial doesn't show: a target that refuses in other
ways than those in the labelled set, so that the labeller errs more often on it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from unittest.mock import patch

import numpy as np

from overbench.review import correction
from overbench.review.correction import SCORED, Confusion, Corrected, CorrectionError
from overbench_tasks.metrics import wilson_interval
from overbench_tasks.records import LABELS

RATES = (0.005, 0.02, 0.1, 0.4, 0.6, 0.85, 0.95, 0.995)
LABELLERS = {"good": (0.97, 0.997), "fair": (0.85, 0.98), "poor": (0.75, 0.95)}
"""Sensitivity and specificity."""
LABELLED = ((75, 675), (10, 90))
"""Labelled replies that refuse, and that don't: as many as people labelled of XSTest's safe prompts; few."""
PROMPTS = (250, 1555)
"""As many as XSTest's safe ones, and as in the release."""
DRAWS = 2000


@dataclass(frozen=True)
class Coverage:
    """Of many trials; all in [0, 1].

    Attributes:
        plain: how often Wilson's interval of the counted rate holds the truth.
        with_label_errors: how often the interval of ``corrected_rate`` does.
        plain_width: the mean width of the former.
        width: the mean width of the latter.
        labels_fit: how often no warning says that the labelled set does not fit; it always does.
    """

    plain: float
    with_label_errors: float
    plain_width: float
    width: float
    labels_fit: float


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
    sums = np.zeros(5)
    with patch.object(correction, "DRAWS", DRAWS):
        for trial in range(trials):
            refused, mended = _trial(rate, labeller, labelled, prompts, rng, trial)
            low, high = wilson_interval(refused, prompts)
            held = (low <= rate <= high, mended.low <= rate <= mended.high)
            sums += (*held, high - low, mended.high - mended.low, mended.labels_fit)
    return Coverage(*(sums / trials))


def _trial(
    rate: float,
    labeller: tuple[float, float],
    labelled: tuple[int, int],
    prompts: int,
    rng: np.random.Generator,
    seed: int,
) -> tuple[int, Corrected]:
    """How many prompts are called refused, and the corrected rate."""
    sensitivity, specificity = labeller
    while True:
        hit = rng.binomial(labelled[0], sensitivity)
        spared = rng.binomial(labelled[1], specificity)
        refused = int(rng.binomial(prompts, rate * sensitivity + (1 - rate) * (1 - specificity)))
        table = np.zeros((1, SCORED, len(LABELS)))
        table[0, 0, :2] = spared, labelled[1] - spared
        table[0, 1, :2] = labelled[0] - hit, hit
        run = Counter({1.0: refused, 0.0: prompts - refused})
        try:
            return refused, correction.corrected_rate(Confusion(table), run, random_seed=seed)
        except CorrectionError:
            continue


def cases() -> Iterator[tuple[str, tuple[int, int], int]]:
    """Every labeller with every labelled set and number of prompts."""
    return product(LABELLERS, LABELLED, PROMPTS)


def table(measured: Sequence[Sequence[Coverage]], shown: Callable[[Coverage], str]) -> Iterator[str]:
    """Markdown: a row for each of :func:`cases`, a column for each of :data:`RATES`."""
    yield f"| labeller | labelled | prompts | {' | '.join(f'{100 * rate:g} %' for rate in RATES)} |"
    yield "| --- | --- | ---: |" + " ---: |" * len(RATES)
    for (name, labelled, prompts), row in zip(cases(), measured, strict=True):
        quality = f"{name} ({LABELLERS[name][0]}, {LABELLERS[name][1]})"
        cells = " | ".join(map(shown, row))
        yield f"| {quality} | {labelled[0]} + {labelled[1]} | {prompts:,} | {cells} |"


def with_plain(carrying: float, plain: float) -> str:
    """Two shares as percentages, the plain interval's in brackets."""
    return f"{100 * carrying:.1f} ({100 * plain:.1f})"


def main() -> None:
    """Print two tables in Markdown, coverage and mean widths, and the lowest coverage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    trials = parser.parse_args().trials
    measured = [
        [coverage(rate, LABELLERS[name], labelled, prompts, trials, seed) for rate in RATES]
        for seed, (name, labelled, prompts) in enumerate(cases())
    ]
    print("Coverage, %:\n")
    print(*table(measured, lambda cell: with_plain(cell.with_label_errors, cell.plain)), sep="\n")
    print("\nMean width, points:\n")
    print(*table(measured, lambda cell: with_plain(cell.width, cell.plain_width)), sep="\n")
    cells = [cell for row in measured for cell in row]
    lowest = min(cell.with_label_errors for cell in cells)
    warned = max(1 - cell.labels_fit for cell in cells)
    print(f"\nThe lowest coverage is {lowest:.1%}; at most {warned:.1%} of the trials of a cell warn.")


if __name__ == "__main__":
    main()
