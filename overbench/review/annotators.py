"""Labels of several annotators on the same rows, and how far the annotators agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from overbench.review.correction import Array
from overbench.review.sheets import KEY_COLUMN, Key, read_key
from overbench_tasks.errors import OverbenchError
from overbench_tasks.metrics import UNDEFINED, Estimate
from overbench_tasks.metrics.resample import DRAWS, drawn_counts, with_percentiles
from overbench_tasks.tables import read_table
from overbench_tasks.text import number_of

Label = TypeVar("Label", bound=Hashable)
Word = TypeVar("Word", bound=Hashable)


@dataclass(frozen=True)
class Annotated(Generic[Label]):
    """A row with the labels of all annotators, in their order; None where an annotator gave no label."""

    where: str
    raw: dict[str, Any]
    stratum: str
    labels: tuple[Label | None, ...]


@dataclass(frozen=True)
class Annotations(Generic[Label]):
    """Rows that one or several people labelled.

    Attributes:
        annotators: their names, from the names of sheets or columns.
        key: of a drawn sample.
    """

    annotators: tuple[str, ...]
    rows: tuple[Annotated[Label], ...]
    key: Key | None = None

    def mapped(self, name: Callable[[Label], Word]) -> Annotations[Word]:
        """These annotations with each label mapped to another."""
        rows = tuple(
            Annotated(
                where=row.where,
                raw=row.raw,
                stratum=row.stratum,
                labels=tuple(None if label is None else name(label) for label in row.labels),
            )
            for row in self.rows
        )
        return Annotations(self.annotators, rows, self.key)


def consensus(labels: Sequence[Label | None]) -> Label | None:
    """The most frequent label; None for a tie, or if nobody labelled the row."""
    ranked = Counter(label for label in labels if label is not None).most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def read_annotations(
    files: Sequence[Path], gold: str, label: Callable[[object, str], Label | None]
) -> Annotations[Label]:
    """Read labelled files.

    Args:
        files: a labelled file of any origin, or the sheets of one draw, one sheet for each annotator.
        gold: the column of people's labels; several, one for each annotator, separated by commas.
        label: (value, file and row) -> the label; None for a blank one.

    Raises:
        OverbenchError: a file cannot be read or has no such column, no row has a label, files that are no
            sheets of one draw, a row that is not in the key, or two rows of one id.
    """
    names: list[str] = []
    rows: dict[str, Annotated[Label]] = {}
    keys: set[str] = set()
    key: Key | None = None
    for file in files:
        table = list(read_table(file))
        key_name = next((str(raw[KEY_COLUMN]) for _, raw in table if raw.get(KEY_COLUMN)), "")
        keys.add(key_name)
        if len(files) > 1 and ("" in keys or len(keys) > 1):
            raise OverbenchError(
                f"Expected one file of labels, or the sheets of one draw, got {', '.join(map(str, files))}. "
                "Sheets of one draw name the same key. Runs go behind --run."
            )
        key = read_key(file.with_name(Path(key_name).name)) if key_name else None
        columns = [gold] if table and gold in table[0][1] else gold.split(",")
        stem = file.name.removesuffix(".gz").rpartition(".")[0]
        if key_name and stem != (drawn := Path(key_name).name.removesuffix(".key.json")):
            stem = stem.removeprefix(f"{drawn}.")
        before, seen = len(names), set[str]()
        names += columns if len(columns) > 1 else [stem]
        for where, raw in table:
            labels = [label(_value(raw, column, where), where) for column in columns]
            identity, stratum = where, ""
            if key:
                identity = str(raw.get("id"))
                if identity not in key.rows:
                    raise OverbenchError(f"{where}: {identity!r} is not in the sample's key. Was it renamed?")
                stratum = key.rows[identity]
            if identity in seen:
                raise OverbenchError(f"{where}: id {identity!r} occurs twice. Remove one of the rows.")
            seen.add(identity)
            earlier = rows[identity].labels if identity in rows else (None,) * before
            rows[identity] = Annotated(where, raw, stratum, (*earlier, *labels))
        for identity in rows.keys() - seen:
            row = rows[identity]
            padding = (None,) * len(columns)
            rows[identity] = Annotated(row.where, row.raw, row.stratum, (*row.labels, *padding))
    if not any(row_label is not None for row in rows.values() for row_label in row.labels):
        shown = ", ".join(map(str, files))
        raise OverbenchError(f"{shown}: no row has a label under {gold!r}. Label some first.")
    return Annotations(tuple(names), tuple(rows.values()), key)


def _value(raw: dict[str, Any], column: str, where: str) -> object:
    if column not in raw:
        raise OverbenchError(
            f"{where}: no column {column!r}. The row has {', '.join(map(repr, raw))}. Name the file with "
            "people's labels first, and their column with --gold."
        )
    return raw[column]


def cohens_kappa(counts: Array) -> Array:
    """(observed - expected) / (1 - expected) agreement (Cohen 1960); NaN where expected is 1.

    Args:
        counts: (..., first annotator's label, second annotator's label), numbers or weights.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        p = counts / counts.sum(axis=(-1, -2), keepdims=True)
        observed = np.trace(p, axis1=-2, axis2=-1)
        expected = (p.sum(axis=-1) * p.sum(axis=-2)).sum(axis=-1)
        return np.asarray(np.where(expected < 1, (observed - expected) / (1 - expected), np.nan))


def fleiss_kappa(ratings: NDArray[np.int64], weights: Array) -> Array:
    """Agreement of two or more annotators beyond chance (Fleiss 1971, equations 2 to 7).

        P_i = (sum_j n_ij^2 - n) / n(n-1),  p_j = share of label j
        kappa = (mean P_i - sum_j p_j^2) / (1 - sum_j p_j^2)

    Args:
        ratings: (rows, labels), how many annotators gave the row this label; each row sums to n.
        weights: (..., rows), the weight of each row; 1 in Fleiss's paper.

    Returns:
        (...,): at most 1; NaN where all labels are the same.
    """
    n = ratings[0].sum()
    alike = ((ratings**2).sum(axis=1) - n) / (n * (n - 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = weights.sum(axis=-1)
        observed = weights @ alike / whole
        expected = ((weights @ ratings / (n * whole)[..., None]) ** 2).sum(axis=-1)
        return np.asarray(np.where(expected < 1, (observed - expected) / (1 - expected), np.nan))


@dataclass(frozen=True)
class AnnotatorAgreement:
    """How far annotators agree on the rows that all of them labelled.

    Attributes:
        kappa: Cohen's for two annotators, Fleiss' for more; the interval is by bootstrap percentiles over
            rows within strata.
        same: the share of rows that all labelled alike, in [0, 1].
        rows: the number of rows that all labelled.
    """

    annotators: tuple[str, ...]
    kappa: Estimate
    same: float
    rows: int

    def line(self) -> str:
        """For the terminal."""
        kind = "Cohen's" if len(self.annotators) == 2 else "Fleiss'"
        who = " and ".join(self.annotators) if len(self.annotators) == 2 else ", ".join(self.annotators)
        if not self.rows:
            return f"{who}: no row that all of them labelled"
        if not self.kappa.defined:
            return f"{who}: {kind} kappa not defined, one label only ({number_of(self.rows, 'row')})"
        rows = number_of(self.rows, "row")
        return f"{who}: {kind} kappa {self.kappa:.4f}, alike {self.same:.1%} of {rows}"


def annotator_agreement(
    annotations: Annotations[Any], among: Sequence[int] | None = None, random_seed: int = 0
) -> AnnotatorAgreement:
    """Cohen's or Fleiss' kappa over the rows that all of them labelled.

    A row of a drawn sample weighs as many rows of its source as it stands for.

    Args:
        among: indices of at least two annotators; None: all.
        random_seed: of the bootstrap.
    """
    chosen = range(len(annotations.annotators)) if among is None else among
    patterns: Counter[tuple[str, tuple[Any, ...]]] = Counter()
    for row in annotations.rows:
        labels = tuple(row.labels[index] for index in chosen)
        if None not in labels:
            patterns[row.stratum, labels] += 1
    who = tuple(annotations.annotators[index] for index in chosen)
    if not patterns:
        return AnnotatorAgreement(who, UNDEFINED, math.nan, 0)
    weights, drawn = _weights(patterns, annotations.key, random_seed)
    words = sorted({label for _, labels in patterns for label in labels}, key=str)
    if len(who) == 2:
        pairs = np.zeros((len(patterns), len(words), len(words)))
        for index, (_, (label, other)) in enumerate(patterns):
            pairs[index, words.index(label), words.index(other)] = 1

        def kappa(weights: Array) -> Array:
            return cohens_kappa(np.tensordot(weights, pairs, axes=1))
    else:
        ratings = np.array([[labels.count(word) for word in words] for _, labels in patterns])

        def kappa(weights: Array) -> Array:
            return fleiss_kappa(ratings, weights)

    alike = np.array([len({*labels}) == 1 for _, labels in patterns])
    return AnnotatorAgreement(
        who,
        with_percentiles(float(kappa(weights)), kappa(drawn), patterns.total()),
        float(weights @ alike / weights.sum()),
        patterns.total(),
    )


def _weights(
    patterns: Counter[tuple[str, tuple[Any, ...]]], key: Key | None, random_seed: int
) -> tuple[Array, Array]:
    """What patterns stand for, (patterns,), and in bootstrap samples within strata, (draws, patterns)."""
    rng = np.random.default_rng(random_seed)
    strata, counts = [stratum for stratum, _ in patterns], np.array([*patterns.values()], dtype=float)
    weights, drawn = np.zeros(len(patterns)), np.zeros((DRAWS, len(patterns)))
    for stratum in dict.fromkeys(strata):
        of_it = np.array([pattern_stratum == stratum for pattern_stratum in strata])
        n = counts[of_it].sum()
        each = key.sizes[stratum] / n if key else 1.0
        weights[of_it] = each * counts[of_it]
        drawn[:, of_it] = each * drawn_counts(counts[of_it], DRAWS, rng)
    return weights, drawn


def annotator_lines(annotations: Annotations[Any]) -> Iterator[str]:
    """Lines for the terminal: all annotators together and, with three or more, each pair; none for one."""
    people = len(annotations.annotators)
    if people > 1:
        yield f"  {annotator_agreement(annotations).line()}"
    for pair in combinations(range(people), 2) if people > 2 else ():
        yield f"    {annotator_agreement(annotations, pair).line()}"
