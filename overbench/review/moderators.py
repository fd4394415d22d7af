"""Compare moderators, and their joint decision, with people's labels of prompts.

The positive class is *harmful*. Figures are given twice: with ``borderline`` prompts as harmless, and as
harmful.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from overbench.review.annotators import (
    Annotations,
    annotator_lines,
    cohens_kappa,
    consensus,
)
from overbench.review.correction import Array
from overbench.review.moderated_prompts import NO_VOTES, TURNED_AWAY
from overbench.review.sheets import HARMS, KEY_COLUMN, Key, read_key, unguarded
from overbench_tasks.display import figure, table_of, terminal_lines
from overbench_tasks.errors import OverbenchError
from overbench_tasks.metrics import Estimate
from overbench_tasks.metrics.resample import DRAWS, with_percentiles
from overbench_tasks.tables import read_table
from overbench_tasks.text import number_of, printable

DEFINITIONS: Final[dict[str, Collection[str]]] = {
    "harmful, borderline counted as harmless": ("harmful",),
    "not harmless, borderline counted as harmful": ("borderline", "harmful"),
}
"""What counts as harmful, in words, and people's labels for it."""
ENSEMBLE: Final = "ensemble"
SHOWN: Final = ("precision", "recall", "F1", "kappa", "passed")

_HARMLESS, _HARMFUL, _OUT = 0, 1, 2


def harm_label(value: object, where: str) -> str | None:
    """A person's label of a prompt, one of :data:`~overbench.review.sheets.HARMS`; None if blank.

    Raises:
        OverbenchError: anything else.
    """
    word = "" if value is None else str(value).strip().casefold()
    if word in ("", "nan"):
        return None
    if word not in HARMS:
        raise OverbenchError(
            f"{where}: unknown label {value!r}. Expected one of {', '.join(HARMS)}, or nothing where a "
            "prompt is not labelled."
        )
    return word


@dataclass(frozen=True)
class ModeratorFigures:
    """One moderator, or all together, against people.

    Attributes:
        name: of the moderator; :data:`ENSEMBLE` for the joint decision.
        labelled: prompts that people labelled and it voted on.
        unscored: drawn prompts without a valid vote of it; they are in no figure.
        figures: ``precision`` and ``recall`` of harmful, ``F1``, Cohen's ``kappa``, and ``passed``, the share
            of harmful prompts among those it lets pass. NaN for an undefined figure.
    """

    name: str
    labelled: int
    unscored: int
    figures: dict[str, Estimate]


def moderator_figures(
    annotations: Annotations[str], harmful: Collection[str], random_seed: int = 0
) -> list[ModeratorFigures]:
    """Figures of the moderators' decision and of each moderator; no figures if nobody voted.

    The majority of annotators decides whether a prompt is harmful; ties are left out. All prompts of a
    stratum have the same votes. Stratum h has N_h prompts, of which people labelled n_h and called k_h
    harmful. All figures follow from the shares q_h = k_h / n_h. For a moderator that votes harmful in the
    strata F and benign in B:

        precision = sum_F N_h q_h / sum_F N_h,  recall = sum_F N_h q_h / (sum_F N_h q_h + sum_B N_h q_h)

    This weighs each prompt by the inverse of its chance to be drawn (Horvitz and Thompson 1952). Strata
    without a labelled prompt are left out. Intervals are percentiles of :data:`DRAWS` draws of q_h from
    Jeffreys' posterior, Beta(k_h + 1/2, n_h - k_h + 1/2). So a stratum with few labels, none of them harmful,
    may still hold harmful prompts.

    Raises:
        OverbenchError: the file has no key.
    """
    key = _key(annotations)
    counts: Counter[tuple[str, bool]] = Counter()
    for row in annotations.mapped(lambda label: label in harmful).rows:
        if (truth := consensus(row.labels)) is not None:
            counts[row.stratum, truth] += 1
    strata = sorted({stratum for stratum, _ in counts if not stratum.startswith(NO_VOTES)})
    if not strata:
        return []
    sizes = np.array([key.sizes[stratum] for stratum in strata], dtype=float)
    k, n = (
        np.array([counts[stratum, True] + plus * counts[stratum, False] for stratum in strata], dtype=float)
        for plus in (0, 1)
    )
    drawn = np.random.default_rng(random_seed).beta(k + 0.5, n - k + 0.5, size=(DRAWS, len(strata)))
    votes = key.votes or {}
    votes_in = {stratum: votes[identity] for identity, stratum in key.rows.items()}
    drawn_from = Counter(key.rows.values())
    moderators = sorted({by for stratum in strata for by in votes_in[stratum]})
    figures = []
    for name in (ENSEMBLE, *moderators):
        verdicts = np.array([_verdict_of(name, stratum, votes_in[stratum]) for stratum in strata])
        at, spread = _figures(sizes, k / n, verdicts), _figures(sizes, drawn, verdicts)
        labelled = int(n[verdicts != _OUT].sum())
        estimates = {}
        for figure_name, value in at.items():
            drawn_figure = with_percentiles(float(value), spread[figure_name], labelled)
            ends = min(drawn_figure.low, drawn_figure.value), max(drawn_figure.high, drawn_figure.value)
            estimates[figure_name] = Estimate(drawn_figure.value, *ends, labelled)
        silent = sum(drawn_from[stratum] for stratum in votes_in if votes_in[stratum].get(name) == "unscored")
        figures.append(ModeratorFigures(name, labelled, silent, estimates))
    return figures


def _key(annotations: Annotations[str]) -> Key:
    if annotations.key is None or annotations.key.votes is None:
        raise OverbenchError("Expected a sheet of overbench annotate --prompts, got labels without its key.")
    return annotations.key


def _verdict_of(name: str, stratum: str, votes: dict[str, str]) -> int:
    if name == ENSEMBLE:
        return _HARMFUL if stratum.startswith(TURNED_AWAY) else _HARMLESS
    # A contested prompt is turned away like a harmful one.
    verdicts = {"benign": _HARMLESS, "harmful": _HARMFUL, "contested": _HARMFUL}
    return verdicts.get(votes.get(name, ""), _OUT)


def _figures(sizes: Array, harmful: Array, verdicts: Array) -> dict[str, Array]:
    """Every figure, of shares of harmful prompts of shape (..., strata)."""
    detected, missed = (
        (sizes * harmful)[..., verdicts == word].sum(axis=-1) for word in (_HARMFUL, _HARMLESS)
    )
    blamed, passed = (
        (sizes * (1 - harmful))[..., verdicts == word].sum(axis=-1) for word in (_HARMFUL, _HARMLESS)
    )
    confusion = np.stack([np.stack([passed, blamed], -1), np.stack([missed, detected], -1)], -2)
    with np.errstate(invalid="ignore"):
        return {
            "precision": detected / (detected + blamed),
            "recall": detected / (detected + missed),
            "F1": 2 * detected / (2 * detected + blamed + missed),
            "kappa": cohens_kappa(confusion),
            "passed": missed / (missed + passed),
        }


def parted(annotations: Annotations[str]) -> Iterator[tuple[str, str, str, str]]:
    """(prompt, people, decision, votes) of each disagreement.

    These are prompts on which people and the moderators' decision differ (also a borderline prompt that
    passed), and prompts on which people have no majority."""
    key = annotations.key
    for row in annotations.rows:
        decision, _, votes = row.stratum.partition("/")
        people = consensus(row.labels)
        labels = [label for label in row.labels if label is not None]
        if not labels or key is None or decision == NO_VOTES:
            continue
        if people is None or (people == "harmless") == (decision == TURNED_AWAY):
            yield unguarded(str(row.raw["prompt"])), people or " and ".join(labels), decision, votes


def moderator_lines(annotations: Annotations[str], limit: int) -> Iterator[str]:
    """The report for the terminal, with the first ``limit`` disagreements of people and moderators.

    Raises:
        OverbenchError: see :func:`moderator_figures`.
    """
    key = _key(annotations)
    labels = [[label for label in row.labels if label] for row in annotations.rows]
    plain = Counter(consensus(of_row) for of_row in labels if of_row)
    total = sum(key.sizes.values())
    yield f"{number_of(plain.total(), 'labelled prompt')}, drawn by strata from {total:,} of {key.source}"
    yield "  " + ", ".join(f"{harm} {plain[harm]:,}" for harm in HARMS) + " (plain counts)"
    if plain[None]:
        yield (
            f"  {plain[None]:,} without a majority of annotators: in a figure only if that does not change it"
        )
    if blank := len(labels) - plain.total():
        yield f"  Left out: {number_of(blank, 'row')} without a label."
    labelled = {row.stratum for row, of_row in zip(annotations.rows, labels, strict=True) if of_row}
    if share := sum(size for stratum, size in key.sizes.items() if stratum not in labelled) / total:
        yield (
            f"  Strata with {share:.1%} of the prompts have no labelled prompt. The figures leave these "
            "strata out."
        )
    yield from annotator_lines(annotations)
    for name, harmful in DEFINITIONS.items():
        yield f"\n{name}"
        yield from annotator_lines(annotations.mapped(lambda label, harmful=harmful: label in harmful))  # type: ignore[misc]
        figures = moderator_figures(annotations, harmful)
        if not figures:
            yield "  No votes are on record for these prompts: there are no moderators to check."
            continue
        columns = ("", "prompts", *SHOWN[:-1], "harmful among passed", "unscored")
        rows = [
            (
                moderator.name,
                moderator.labelled,
                *(figure(moderator.figures[name]) for name in SHOWN),
                moderator.unscored,
            )
            for moderator in figures
        ]
        yield from terminal_lines(table_of(columns, rows))
    disagreements = list(parted(annotations))
    parting = number_of(len(disagreements), "prompt")
    yield f"\n{parting} on which people disagree with the moderators, or with one another"
    for prompt, people, decision, votes in disagreements[:limit]:
        yield f"  - {printable(prompt[:400])[:160]}"
        yield f"      people: {people}; moderators: {decision.replace('_', ' ')} ({printable(votes)})"


HEADER: Final = ("prompt", "people", "moderators", "votes")
"""Of the file of disagreements."""


def is_prompt_sheet(file: Path) -> bool:
    """Whether a file is a sheet of prompts, by its key."""
    raw = next(read_table(file), ("", {}))[1]
    name = raw.get(KEY_COLUMN)
    return bool(name) and read_key(file.with_name(Path(str(name)).name)).votes is not None
