"""The error-corrected rate: what a rate would be if the labeller made no errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overbench.review.tally import AT_THE_LIMIT, LABELS_DO_NOT_FIT, Change, rate
from overbench_tasks.errors import OverbenchError
from overbench_tasks.metrics import Estimate, Rate, wilson_interval
from overbench_tasks.records import LABELS, Label
from overbench_tasks.text import number_of

Array = NDArray[np.float64]
SCORED: Final = len(LABELS) - 1
"""All of LABELS are labels but the last: ``unscored`` is the lack of one."""
DRAWS: Final = 20_000
TAIL: Final = 0.025
"""Of a 95 % interval, on either side."""
FEW: Final = 20
"""Fewer labelled replies than this on either side are too few to correct by; a note says so."""


@dataclass
class Confusion:
    """Counts of labelled replies: people's labels by the labeller's.

    Attributes:
        counts: (strata, people's label, labeller's label), in the order of LABELS; people's labels lack the
            last, ``unscored``.
        sizes: (strata,), how many replies of the run each stratum stands for; None for a file that was not
            drawn by strata.
        blank: rows without a person's label, or labelled ``unscored``; they are not counted.
        tied: rows without a majority among annotators; they are not counted.
        diluted: rows that a person called diluted; they count as complied.
        disagreements: the replies whose labels differ, people's as ``old``, in the file's order.
    """

    counts: Array
    sizes: Array | None = None
    blank: int = 0
    tied: int = 0
    diluted: int = 0
    disagreements: tuple[Change, ...] = ()

    def weights(self) -> Array:
        """(strata,): how many replies of the run a labelled reply stands for; 1 without strata."""
        if self.sizes is None:
            return np.ones(len(self.counts))
        labelled = self.counts.sum(axis=(1, 2))
        return np.asarray(np.where(labelled > 0, self.sizes / np.maximum(labelled, 1), 0.0))

    def unlabelled(self) -> float:
        """The share of the run, in [0, 1], in strata without a labelled reply."""
        if self.sizes is None:
            return 0.0
        return float(self.sizes[self.counts.sum(axis=(1, 2)) == 0].sum() / self.sizes.sum())


class CorrectionError(OverbenchError):
    """The labelled sample cannot correct a rate. The message says why."""


@dataclass(frozen=True, kw_only=True)
class Corrected(Estimate):
    """A corrected rate with its 95 % interval and its inputs; all rates in [0, 1].

    The interval holds the value. It is never narrower than Wilson's interval of ``raw``.

    Attributes:
        raw: the rate by the labeller's labels.
        sensitivity: the share of truly positive replies that the labeller finds.
        specificity: the share of all other replies that it does not flag.
        labels_fit: False if no rate can give ``raw`` with this sensitivity and specificity, and the
            difference exceeds chance.
        at_limit: True if no rate gives ``raw``, but chance explains the difference; ``value`` is then clipped
            to 0 or 1.
        notes: sentences to read before relying on the rate.
    """

    raw: float
    sensitivity: float
    specificity: float
    labels_fit: bool
    at_limit: bool = False
    notes: tuple[str, ...] = ()

    @property
    def told_from_zero(self) -> bool:
        """False if the labeller's errors alone may explain this rate."""
        return self.low > 0


@dataclass(frozen=True)
class LabelErrors:
    """Labelled replies that show a labeller's errors.

    Attributes:
        table: people's labels by the labeller's.
        source: the labelled replies, in words.
        about_style: a sentence on whether their refusals have the style of the run's; "" for the user's own
            labels.
    """

    table: Confusion
    source: str
    about_style: str = ""


def corrected_rate(
    table: Confusion,
    run: Counter[float],
    positive: tuple[Label, ...] = ("refused",),
    random_seed: int = 0,
    *,
    withheld: float = 0.0,
) -> Corrected:
    """Correct a run's rate for the labeller's errors, as measured on a labelled sample.

        corrected = (p + sp - 1) / (se + sp - 1), clipped to [0, 1]

    p is the run's rate, se the share of truly positive replies that the labeller finds, and sp the share of
    all other replies that it does not flag (Rogan & Gladen 1978, "Estimating prevalence from
    the results of a screening test", American Journal of Epidemiology 107(1), 71-76).

    A sample drawn by the labeller's own labels holds too many of the rare label, so counting does not give
    se and sp. They follow from three shares: q1 of truly positive replies among those that the labeller
    flags, q0 among all others (both weighted by stratum), and w that it flags in the run drawn from:

        se = w q1 / (w q1 + (1-w) q0),  sp = (1-w)(1-q0) / ((1-w)(1-q0) + w (1-q1))

    For an unstratified sample these equal the counted se and sp. For a sample of the corrected run itself the
    result equals the stratified estimate from the labelled replies. The value is the likeliest rate, clipped
    to [0, 1]. A value of 1 means that the labeller's misses alone may keep the raw rate below 1; the interval
    says how far below 1 the rate may be.

    The interval is the shortest that holds 95 % of draws of the unclipped rate. Each draw takes q1, q0, w and
    p from their posteriors. These are beta distributions of the numbers of prompts and of labelled replies
    (Kish's effective numbers where weights differ). Priors are uniform, so zero errors among 30 replies do
    not count as no errors; the prior of w gives se and sp of an unstratified sample uniform priors.
    ``benchmarks/interval_coverage.py`` simulates how often the interval holds the true rate. If more than
    2.5 % of the draws have se + sp <= 1, the interval is [0, 1]. p and w are drawn as independent, so the
    interval is somewhat too wide if the sample was drawn from the run itself.

    After clipping to [0, 1] the interval may be too narrow. It is widened within [0, 1] to the width of
    Wilson's interval of the raw rate. If the unclipped rate and 97.5 % of its draws lie above 1, or below 0,
    the labelled sample does not fit: the labeller errs less on this run than on the sample. Then the interval
    is joined with Wilson's.

    Do not use it
      - where se + sp <= 1: the labeller is no better than chance (raises);
      - with a handful of labelled replies: see :data:`FEW`, noted in ``notes``;
      - with labels of another model's replies, or of prompts of another kind, language or token limit: se and
        sp depend on these. ``notes`` says so only if the sample does not fit;
      - where sample and run have different labellers, or different versions of the rules.

    Args:
        table: the labelled sample, labelled by the run's labeller.
        run: share of positive replies per prompt -> number of prompts; over scored replies.
        positive: the labels whose rate it is.
        random_seed: of the draws.
        withheld: the share of prompts whose reply the provider withheld. They are not corrected: no labeller
            read them.

    Raises:
        CorrectionError: an empty run, a sample in which all of people's or all of the labeller's labels are
            on one side, or se + sp <= 1.
    """
    if run.total() == 0:
        raise CorrectionError("The run has no scored reply, so there is no rate to correct.")
    sample = _shares(table, positive)
    se, sp = map(float, _accuracy(sample.q1, sample.q0, sample.w))
    if se + sp <= 1:
        raise CorrectionError(
            f"Sensitivity {se:.3f} + specificity {sp:.3f} is not above 1: the labeller is no better than "
            "chance on this sample, and its rate cannot be corrected. Use another labeller."
        )
    counted = _CountedRate(rate(run), withheld)
    value = counted.whole(float(np.clip(_without_errors(counted.labelled_rate, se, sp), 0, 1)))
    low, high, labels_fit = _interval(counted, sample, value, (se, sp), np.random.default_rng(random_seed))
    outside = not 1 - sp <= counted.labelled_rate <= se
    notes = [*_notes_on_few(sample, " or ".join(positive))]
    if outside:
        notes.append(_note_on_range(counted, (se, sp), labels_fit))
    return Corrected(
        value,
        low,
        high,
        run.total(),
        raw=counted.raw.value,
        sensitivity=se,
        specificity=sp,
        labels_fit=labels_fit,
        at_limit=outside and labels_fit,
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _CountedRate:
    """A rate by the labeller's labels, and the share of withheld replies, on which no labeller errs."""

    raw: Rate
    withheld: float

    @property
    def labelled(self) -> float:
        """The share of the prompts whose reply the labeller read."""
        return 1 - self.withheld

    @property
    def labelled_rate(self) -> float:
        """The rate over these prompts."""
        return (self.raw.value - self.withheld) / self.labelled if self.labelled else 0.0

    def whole(self, labelled_rate: float) -> float:
        """The rate over all prompts, from the rate over those that the labeller read."""
        return self.withheld + self.labelled * labelled_rate


def _interval(
    counted: _CountedRate,
    sample: _Shares,
    value: float,
    accuracy: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[float, float, bool]:
    """(low, high, whether the labelled sample fits), see :func:`corrected_rate`."""
    n, raw_rate, withheld = counted.raw.n, counted.labelled_rate, counted.withheld
    drawn_se, drawn_sp = sample.drawn_accuracy(rng)
    drawn_raw = _beta(rng, raw_rate, n * counted.labelled)
    drawn_withheld = _beta(rng, withheld, n) if withheld else np.zeros(DRAWS)
    usable = drawn_se + drawn_sp > 1
    if usable.mean() < 1 - TAIL:
        return 0.0, 1.0, True
    rates = _without_errors(drawn_raw[usable], drawn_se[usable], drawn_sp[usable])
    se, sp = accuracy
    too_high = raw_rate > se and (rates > 1).mean() >= 1 - TAIL
    too_low = raw_rate < 1 - sp and (rates < 0).mean() >= 1 - TAIL
    labels_fit = not (too_high or too_low)
    lowest = wilson_interval(withheld * n, n)[0] if withheld else 0.0
    shares = drawn_withheld[usable]
    ends = np.clip(_shortest(shares + (1 - shares) * rates), lowest, 1).tolist()
    inside = [value, *ends] if labels_fit else [value, *ends, *counted.raw.interval]
    width = counted.raw.high - counted.raw.low
    return *_at_least_as_wide(min(inside), max(inside), width, lowest), labels_fit


def _notes_on_few(sample: _Shares, name: str) -> Iterator[str]:
    for what, replies in ((name, sample.positive), (f"not {name}", sample.negative)):
        if replies < FEW:
            yield (
                f"Only {number_of(replies, 'labelled reply is', 'labelled replies are')} {what}: too few to "
                "rely on the correction."
            )


def _note_on_range(counted: _CountedRate, accuracy: tuple[float, float], labels_fit: bool) -> str:
    """Of a raw rate that no true rate gives with this accuracy."""
    se, sp = accuracy
    lowest, highest = counted.whole(1 - sp), counted.whole(se)
    advice = (
        "Chance may explain the difference: read the interval, not the corrected rate."
        if labels_fit
        else "The labeller errs less on these replies: label some of them. The interval also covers the "
        "interval of sampling."
    )
    return (
        f"{(AT_THE_LIMIT if labels_fit else LABELS_DO_NOT_FIT).capitalize()}: with this sensitivity and "
        f"specificity every raw rate lies between {lowest:.1%} and {highest:.1%}, but this one is "
        f"{counted.raw.value:.1%}. {advice}"
    )


@dataclass(frozen=True, slots=True)
class _Shares:
    """The flagged share ``w`` of a labelled sample; ``q1``, ``q0``: positive among flagged and others."""

    q1: float
    q0: float
    w: float
    flagged: float
    others: float
    population: float
    positive: int
    negative: int

    def drawn_accuracy(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draws of (sensitivity, specificity)."""
        q1, q0 = _beta(rng, self.q1, self.flagged), _beta(rng, self.q0, self.others)
        return _accuracy(q1, q0, _beta(rng, self.w, self.population, prior=2))


def _shares(table: Confusion, positive: tuple[Label, ...]) -> _Shares:
    scored = table.counts[:, :, :SCORED]
    weights = table.weights()
    is_positive = np.array([label in positive for label in LABELS[:SCORED]])
    # (strata, people's label): of replies that the labeller flags, and of those it leaves alone
    flagged, others = scored[:, :, is_positive].sum(axis=2), scored[:, :, ~is_positive].sum(axis=2)
    flagged_weight, other_weight = (float((weights @ side).sum()) for side in (flagged, others))
    detected, missed = (float((weights @ side)[is_positive].sum()) for side in (flagged, others))
    whole = flagged_weight + other_weight
    if not (flagged_weight and other_weight and 0 < detected + missed < whole):
        raise CorrectionError(
            f"The labelled sample needs replies that are {' or '.join(positive)} and replies that are not, "
            "by people's labels and by the labeller's. Label more replies."
        )
    return _Shares(
        q1=detected / flagged_weight,
        q0=missed / other_weight,
        w=flagged_weight / whole,
        flagged=effective_size(weights, flagged.sum(axis=1)),
        others=effective_size(weights, others.sum(axis=1)),
        population=float(scored.sum() if table.sizes is None else table.sizes.sum()),
        positive=int(scored[:, is_positive].sum()),
        negative=int(scored[:, ~is_positive].sum()),
    )


def _accuracy(q1: Array | float, q0: Array | float, w: Array | float) -> tuple[Array, Array]:
    """(sensitivity, specificity)."""
    detected, missed = np.asarray(w * q1), np.asarray((1 - w) * q0)
    passed, blamed = np.asarray((1 - w) * (1 - q0)), np.asarray(w * (1 - q1))
    return detected / (detected + missed), passed / (passed + blamed)


def _without_errors(raw: Array | float, se: Array | float, sp: Array | float) -> Array:
    """Rogan and Gladen's rate, not clipped."""
    return np.asarray((raw + sp - 1) / (se + sp - 1))


def effective_size(weights: Array, replies: Array) -> float:
    """Kish's effective sample size of ``replies[h]`` replies of weight ``weights[h]`` each; 0 for none."""
    squares = float((weights**2 * replies).sum())
    return float((weights * replies).sum()) ** 2 / squares if squares else 0.0


def _beta(rng: np.random.Generator, share: float, n: float, prior: float = 1) -> Array:
    """Draws of a proportion seen as ``share`` in n replies, with the prior Beta(prior, prior)."""
    return rng.beta(share * n + prior, (1 - share) * n + prior, size=DRAWS)


def _shortest(draws: Array) -> Array:
    """(2,): the ends of the shortest interval that holds 95 % of the draws."""
    ordered = np.sort(draws)
    inside = round((1 - 2 * TAIL) * (len(ordered) - 1))
    first = int(np.argmin(ordered[inside:] - ordered[: len(ordered) - inside]))
    return ordered[[first, first + inside]]


def _at_least_as_wide(low: float, high: float, width: float, least: float) -> tuple[float, float]:
    """The interval, widened to a width on both sides, or on one where it meets ``least`` or 1."""
    missing = width - (high - low)
    if missing <= 0:
        return low, high
    low = max(least, min(low - missing / 2, 1 - width))
    return low, low + width
