"""The error-corrected rate: what a rate would be if the labeller made no errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers import Labeller
from overbench_tasks.logs import label_rows, read_replies
from overbench_tasks.records import LABELS, Label
from overbench_tasks.review.agreement import SCORED, Array, Confusion, effective_size
from overbench_tasks.review.tally import Labels, interval, labels_of, metric_shares, rate

DRAWS: Final = 20_000
FEW: Final = 20
"""Fewer labelled replies than this on either side are too few to correct by; a note says so."""

RATES: Final[dict[str, tuple[Label, ...]]] = {
    "osr (refused)": ("refused",),
    "refused or partial": ("refused", "partial"),
}
"""What is corrected, and the labels that count for it."""


class CorrectionError(OverbenchError):
    """The labelled sample cannot correct anything. The message says why."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A corrected rate with its 95 % interval, in [0, 1], and what it was made from."""

    raw: float
    sensitivity: float
    specificity: float
    value: float
    low: float
    high: float
    notes: tuple[str, ...] = ()


def corrected_rate(
    table: Confusion,
    run: Counter[float],
    positive: tuple[Label, ...] = ("refused",),
    seed: int = 0,
) -> Corrected:
    """Correct a run's rate for the labeller's errors, as measured on a labelled sample.

        corrected = (p + sp - 1) / (se + sp - 1), clipped to [0, 1]

    with p the run's rate, se the share of truly positive replies that the labeller finds and sp
    the share of the others that it leaves alone (Rogan & Gladen 1978, "Estimating prevalence from
    the results of a screening test", American Journal of Epidemiology 107(1), 71-76).

    A sample drawn by the labeller's own labels does not show se and sp by plain counting: it holds
    too many of the rare label. So they are put together from what such a sample does show, the
    share q1 of truly positive replies among those the labeller flags and q0 among the others,
    weighted by stratum, and the share w that it flags in the run the sample was drawn from:

        se = w q1 / (w q1 + (1-w) q0),  sp = (1-w)(1-q0) / ((1-w)(1-q0) + w (1-q1))

    For an unstratified sample these are the plain counts' se and sp. For a sample of the very run
    that is corrected, the result equals the stratified estimate from the labelled replies.

    The interval is a parametric bootstrap over both samples: q1 and q0 from Jeffreys' beta
    distributions with the effective numbers of labelled replies (so that no error among 30 replies
    is not taken for no error at all), w likewise, p from the run's prompts resampled; percentiles
    2.5 and 97.5. Where more than 2.5 % of the draws have se + sp <= 1, it is [0, 1]: nothing is
    known. It treats p and w as independent, which makes it somewhat too wide where the sample was
    drawn from the run itself.

    Do not use it
      - where se + sp <= 1: the labeller is no better than chance (raises);
      - with a handful of labelled replies: see :data:`FEW`, noted in ``notes``;
      - with labels of another model's replies: se and sp depend on how a model refuses, and move
        with it; the same holds for prompts of another kind, another language, another token limit;
      - where the sample was measured with another labeller or another version of its rules than the run.

    Args:
        table: the labelled sample, labelled by the run's labeller.
        run: share of positive replies per prompt -> number of prompts; over scored replies.
        positive: the labels whose rate it is.
        seed: of the bootstrap.

    Raises:
        CorrectionError: an empty run, a sample in which people or labeller know one side only,
            or se + sp <= 1.
    """
    scored = table.counts[:, :, :SCORED]
    weights = table.weights()
    is_positive = np.array([label in positive for label in LABELS[:SCORED]])
    # (strata, people's label): of replies that the labeller flags, and of those it leaves alone
    flagged, others = scored[:, :, is_positive].sum(axis=2), scored[:, :, ~is_positive].sum(axis=2)
    n = run.total()
    if n == 0:
        raise CorrectionError("The run has no scored reply: there is no rate to correct.")
    shares = np.array(list(run), dtype=float)
    prompts = np.array(list(run.values()), dtype=float)
    p = float(shares @ prompts) / n

    flagged_weight, other_weight = (float((weights @ side).sum()) for side in (flagged, others))
    found, missed = (float((weights @ side)[is_positive].sum()) for side in (flagged, others))
    whole = flagged_weight + other_weight
    if not (flagged_weight and other_weight and 0 < found + missed < whole):
        raise CorrectionError(
            f"The labelled sample needs replies that are {' or '.join(positive)} and replies that are not, "
            "by people's labels and by the labeller's. Label more replies."
        )
    q1, q0, w = found / flagged_weight, missed / other_weight, flagged_weight / whole
    se, sp = _accuracy(q1, q0, w)
    if se + sp <= 1:
        raise CorrectionError(
            f"Sensitivity {se:.3f} + specificity {sp:.3f} is not above 1: the labeller is no better than "
            "chance on this sample, and its rate cannot be corrected. Use another labeller."
        )
    value = float(np.clip((p + sp - 1) / (se + sp - 1), 0, 1))

    rng = np.random.default_rng(seed)
    population = scored.sum() if table.sizes is None else table.sizes.sum()
    drawn_q1 = _beta(rng, q1, effective_size(weights, flagged.sum(axis=1)))
    drawn_q0 = _beta(rng, q0, effective_size(weights, others.sum(axis=1)))
    drawn_se, drawn_sp = _accuracy(drawn_q1, drawn_q0, _beta(rng, w, float(population)))
    drawn_p = rng.multinomial(n, prompts / n, size=DRAWS) @ shares / n
    usable = drawn_se + drawn_sp > 1
    low, high = 0.0, 1.0
    if usable.mean() >= 0.975:
        rates = np.clip((drawn_p + drawn_sp - 1)[usable] / (drawn_se + drawn_sp - 1)[usable], 0, 1)
        low, high = map(float, np.quantile(rates, [0.025, 0.975]))
    name = " or ".join(positive)
    sides = ((name, scored[:, is_positive]), (f"not {name}", scored[:, ~is_positive]))
    notes = tuple(
        f"Only {int(side.sum())} labelled replies are {what}: too few to rely on the correction."
        for what, side in sides
        if side.sum() < FEW
    )
    return Corrected(p, float(se), float(sp), value, min(low, value), max(high, value), notes)


def correction_lines(table: Confusion, runs: Sequence[Path], labeller: Labeller) -> Iterator[str]:
    """The report on runs: raw and corrected rate of refusals, and of refusals and partials.

    Args:
        table: a labelled sample, labelled by ``labeller``.
        runs: sample logs of our tasks; labelled by ``labeller`` here, so that both rest on the same
            version of it. Of several, first all of them as one run, then each.
    """
    if not runs:
        return
    found = {
        str(run): Counter(labels_of(new) for _, new in label_rows(read_replies(run), labeller.label))
        for run in runs
    }
    if len(found) > 1:
        found = {f"all {len(found)} runs": sum(found.values(), Counter[Labels]()), **found}
    for run, prompts in found.items():
        yield from _lines(table, run, prompts, labeller)
    whose = "this model's" if len(found) == 1 else "these models'"
    yield f"  Rogan-Gladen; holds only if the labelled replies are {whose}, to prompts like these."


def _lines(table: Confusion, run: str, prompts: Counter[Labels], labeller: Labeller) -> Iterator[str]:
    scored = metric_shares(prompts, "osr").total()
    yield f"\n{run}: {scored:,} prompts with a scored reply, labelled by {labeller.name}"
    yield f"  {'':24}{'raw':28}{'error-corrected':28}sensitivity  specificity"
    for name, positive in RATES.items():
        counted_as: Counter[Labels] = Counter()
        for labels, n in prompts.items():
            counted_as[tuple("refused" if label in positive else label for label in labels)] += n
        shares = metric_shares(counted_as, "osr")
        start = f"  {name:24}{interval(*rate(shares)):28}"
        try:
            mended = corrected_rate(table, shares, positive)
        except CorrectionError as error:
            yield f"{start}not corrected: {error}"
            continue
        figures = interval(mended.value, mended.low, mended.high)
        yield f"{start}{figures:28}{mended.sensitivity:<13.4f}{mended.specificity:.4f}"
        yield from (f"    {note}" for note in mended.notes)


def _accuracy(q1: Array | float, q0: Array | float, w: Array | float) -> tuple[Array, Array]:
    """(sensitivity, specificity)."""
    found, missed = np.asarray(w * q1), np.asarray((1 - w) * q0)
    passed, blamed = np.asarray((1 - w) * (1 - q0)), np.asarray(w * (1 - q1))
    return found / (found + missed), passed / (passed + blamed)


def _beta(rng: np.random.Generator, share: float, n: float) -> Array:
    """Draws of a proportion seen as ``share`` in n replies, with Jeffreys' prior."""
    return rng.beta(share * n + 0.5, (1 - share) * n + 0.5, size=DRAWS)
