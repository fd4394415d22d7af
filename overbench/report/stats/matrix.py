"""The response matrix in memory: which target refused which prompt, and what is known of the prompts.

All numbers of a release and of a report are computed from this one record. A cell is the share of its scored
replies that refuse: 0 or 1 where there is one reply. Missing and unscored cells are -1 throughout and are
outside every denominator: a gap is never an answer. Harmless and unsafe prompts are never in one matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.release_files import share_sql
from overbench_tasks.records import LABELS, Label

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from overbench.release.joined_outcomes import AnsweredPrompts
    from overbench.release.release_inputs import NotAsked
    from overbench_tasks.outcomes.release_files import Release

MISSING: Final = -1

REFUSED: Final[tuple[Label, ...]] = ("refused",)
"""What counts as a refusal. What is ``partial`` or ``evasive`` is scored and none, as in
:mod:`overbench_tasks.metrics`."""
COMPLIED: Final[tuple[Label, ...]] = ("complied", "partial")
"""What counts as compliance with an unsafe prompt; ``evasive`` is neither."""


@dataclass(frozen=True)
class ResponseMatrix:
    """Prompts by targets.

    Attributes:
        prompt_ids: (P,), each once.
        targets: (T,), each once.
        values: float (P, T): the share of refused replies among the scored ones; -1 missing or unscored.
        source_targets: (P,), the targets that each prompt was made for; empty where it was made for none.
        categories: (P,), None where unknown.
        features: (P,), the trigger words of each prompt, as attribution found them.
        named: (P,), the words that writers or files of the other prompts name; empty: of none.
        withheld: float (P, T): the share of scored replies that the provider withheld or cut off; None: none.
        asked_of: target -> prompts of the whole set, of those that were asked a random part of it. Not known
            of a part of the matrix.
        sequential: those of these that were asked until their interval was narrow enough.

    Raises:
        OverbenchError: an id or a target is there twice.
    """

    prompt_ids: tuple[str, ...]
    targets: tuple[str, ...]
    values: NDArray[np.float64]
    source_targets: tuple[frozenset[str], ...]
    categories: tuple[str | None, ...]
    features: tuple[tuple[str, ...], ...]
    withheld: NDArray[np.float64] | None = None
    asked_of: Mapping[str, int] = field(default_factory=dict)
    sequential: frozenset[str] = frozenset()
    named: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        for what, names in (("prompt id", self.prompt_ids), ("target", self.targets)):
            if len(set(names)) < len(names):
                [(twice, _)] = Counter(names).most_common(1)
                raise OverbenchError(f"The {what} {twice!r} is there twice. Join its rows, or rename one.")

    @property
    def refusals(self) -> NDArray[np.float64]:
        """(P, T): the values, 0 where there is none."""
        import numpy as np

        return np.maximum(self.values, 0)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """(P, T): where there is a value."""
        scored: NDArray[np.bool_] = self.values != MISSING
        return scored

    @property
    def has_shares(self) -> bool:
        """Whether some prompt got several replies of one target, not all alike."""
        return bool((self.values % 1 != 0).any())

    def with_named_features(self) -> ResponseMatrix:
        """The same matrix with :attr:`named` in the place of the attributed words."""
        return replace(self, features=self.named or ((),) * len(self.prompt_ids))

    def column(self, target: str) -> NDArray[np.float64]:
        """(P,): the values of one target."""
        column: NDArray[np.float64] = self.values[:, self.targets.index(target)]
        return column

    def made_for(self, targets: Iterable[str]) -> NDArray[np.bool_]:
        """(P,): whether a prompt was made for at least one of ``targets``."""
        import numpy as np

        wanted = frozenset(targets)
        return np.array([not wanted.isdisjoint(sources) for sources in self.source_targets], dtype=np.bool_)

    def answered(self) -> ResponseMatrix:
        """The same matrix with only those targets that have a scored reply in it."""
        places = [place for place in range(len(self.targets)) if self.scored[:, place].any()]
        withheld = None if self.withheld is None else self.withheld[:, places]
        targets = tuple(self.targets[place] for place in places)
        return replace(self, targets=targets, values=self.values[:, places], withheld=withheld)

    def with_not_asked(self, not_asked: Mapping[str, NotAsked]) -> ResponseMatrix:
        """The same matrix of targets that were asked a random part: target -> what it left out."""
        left = {name: one for name, one in not_asked.items() if name in self.targets}
        counts = {name: int((self.column(name) != MISSING).sum()) + one.prompts for name, one in left.items()}
        sequential = frozenset(name for name, one in left.items() if one.sequential)
        return replace(self, asked_of=counts, sequential=sequential)

    def with_ids(self, prompt_ids: Iterable[str]) -> ResponseMatrix:
        """The same matrix with only these prompts (a hard set, say); ids it doesn't have are passed over."""
        wanted = set(prompt_ids)
        places = [place for place, name in enumerate(self.prompt_ids) if name in wanted]
        return ResponseMatrix(
            tuple(self.prompt_ids[place] for place in places),
            self.targets,
            self.values[places],
            tuple(self.source_targets[place] for place in places),
            tuple(self.categories[place] for place in places),
            tuple(self.features[place] for place in places),
            None if self.withheld is None else self.withheld[places],
            named=tuple(self.named[place] for place in places) if self.named else (),
        )


def matrix_from_tables(
    prompts: pa.Table, cells: pa.Table, targets: Sequence[str], counted: Collection[Label] = REFUSED
) -> ResponseMatrix:
    """The matrix of a release's two tables.

    Args:
        prompts: columns ``id``, ``source_targets``, ``category``, ``attributed_features``,
            ``writer_features``.
        cells: columns ``id``, ``target``, ``label``, and the counts of labels where there are, at most one
            row for each id and target. Rows of ids that ``prompts`` doesn't have (dropped as near duplicates)
            are passed over.
        targets: in their order, those without a single cell included.
        counted: the labels whose share a cell is.

    Raises:
        OverbenchError: a cell is there twice, its target is not among ``targets``, or its label is none of
            ours.
    """
    import numpy as np

    names = tuple(targets)
    ids = prompts["id"].combine_chunks()
    rows = _places(cells["id"], ids)
    columns = _places(cells["target"], names)
    labels = _places(cells["label"], LABELS)
    for kind, found, column, known in (
        ("target", columns, "target", names),
        ("label", labels, "label", LABELS),
    ):
        if (found < 0).any():
            strange = cells[column][int((found < 0).argmax())].as_py()
            raise OverbenchError(
                f"A cell of the response matrix has the {kind} {strange!r}. Expected one of "
                f"{', '.join(known)}. Make the release anew."
            )
    of_labels = [MISSING if label == "unscored" else label in counted for label in LABELS]
    shares = np.array(of_labels, dtype=np.float64)[labels]
    blocked = np.zeros(len(shares))
    if "refused" in cells.column_names:
        counts = {label: cells[label].to_numpy().astype(np.float64) for label in LABELS}
        scored = sum(counts[label] for label in LABELS if label != "unscored")
        # NaN, and so the label's, where a cell's counts aren't known.
        share = sum(counts[label] for label in counted) / np.maximum(scored, 1)
        shares = np.where(scored > 0, share, shares)
        blocked = np.where(scored > 0, cells["blocked"].to_numpy() / np.maximum(scored, 1), blocked)
    kept = rows >= 0
    rows, columns, shares, blocked = rows[kept], columns[kept], shares[kept], blocked[kept]
    per_cell = np.bincount(rows * len(names) + columns)
    if per_cell.max(initial=0) > 1:
        row, place = divmod(int(per_cell.argmax()), len(names))
        raise OverbenchError(
            f"The response matrix has two cells for prompt {ids[row].as_py()} and target {names[place]!r}. "
            "Expected one. Make the release anew."
        )
    values = np.full((len(ids), len(names)), MISSING, dtype=np.float64)
    values[rows, columns] = shares
    withheld = None
    if blocked.any():
        withheld = np.zeros(values.shape)
        withheld[rows, columns] = blocked
    return ResponseMatrix(
        tuple(ids.to_pylist()),
        names,
        values,
        tuple(frozenset(sources or ()) for sources in prompts["source_targets"].to_pylist()),
        tuple(prompts["category"].to_pylist()),
        _words(prompts["attributed_features"]),
        withheld,
        named=_words(prompts["writer_features"]),
    )


def _words(column: pa.ChunkedArray) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(words or ()) for words in column.to_pylist())


def answers_matrix(answers: AnsweredPrompts, counted: Collection[Label] = REFUSED) -> ResponseMatrix:
    """The matrix of one side; targets in their order, those without a reply included.

    Raises:
        OverbenchError: its tables don't fit together.
    """
    return matrix_from_tables(answers.prompts, answers.cells, answers.targets, counted)


def release_matrix(release: Release) -> ResponseMatrix:
    """The matrix of a release's harmless prompts; targets by name, those without a reply included.

    Raises:
        OverbenchError: a file cannot be read, or its tables don't fit together.
    """
    prompts = release.prompts(columns=("id", "source_targets", "category", "features"))
    cells = release.matrix(columns=("id", "target", "label"))
    return matrix_from_tables(prompts, cells, [target.target for target in release.targets()])


def unsafe_matrices(unsafe: AnsweredPrompts) -> tuple[ResponseMatrix, ResponseMatrix]:
    """Of unsafe prompts the shares of replies that refuse and of those that comply, wholly or in part
    (:data:`COMPLIED`), of the targets with a scored reply.

    Raises:
        OverbenchError: as :func:`answers_matrix`.
    """
    return answers_matrix(unsafe).answered(), answers_matrix(unsafe, COMPLIED).answered()


@dataclass(frozen=True)
class LabelCount:
    """The labels of one target in one set.

    Attributes:
        labels: how many cells carry each; a cell of several replies counts by their shares.
        blocked: of the cells, how many are refused or cut off by the provider.
        blocks: the same by provider, "" where it is not known, and by what it withheld them for.
        conflicts: cells whose replies were not all labelled alike.
        reasons: of the unscored cells, why they are, where that is known.
    """

    set_name: str
    target: str
    labelled_by: str
    labels: Mapping[Label, float]
    blocked: float
    conflicts: int
    reasons: Counter[str]
    blocks: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def prompts(self) -> int:
        return round(sum(self.labels.values()))


def label_counts(set_name: str, cells: pa.Table) -> list[LabelCount]:
    """By target and labeller, in the order of their names.

    Args:
        cells: as :meth:`overbench_tasks.outcomes.release_files.Release.matrix` gives them.
    """
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.from_arrow(cells)
        shares = [f"coalesce(sum({share_sql(name, rows.columns)}), 0)" for name in (*LABELS[:-1], "blocked")]
        unscored = "FILTER (label = 'unscored')"
        reasons = f"list(reason) {unscored}" if "reason" in rows.columns else "NULL"
        found = rows.aggregate(
            f"""target, coalesce(labelled_by, ''), {", ".join(shares)}, count(*) {unscored},
            count(*) FILTER (conflict), {reasons}"""
        ).fetchall()
        blocks = _blocks(rows) if "blocked" in rows.columns else {}
    return [
        LabelCount(
            set_name=set_name,
            target=target,
            labelled_by=labelled_by,
            labels=dict(zip(LABELS, (*of_labels, unscored), strict=True)),
            blocked=blocked,
            conflicts=conflicts,
            reasons=Counter(sorted(filter(None, reasons or ()))),
            blocks=blocks.get((target, labelled_by), {}),
        )
        # DuckDB gives groups, and what is in them, in any order.
        for target, labelled_by, *of_labels, blocked, unscored, conflicts, reasons in sorted(
            found, key=lambda row: row[:2]
        )
    ]


def _blocks(rows: duckdb.DuckDBPyRelation) -> dict[tuple[str, str], dict[tuple[str, str], float]]:
    """Target and labeller -> provider and what for -> the cells, by their shares, that are blocked so."""
    told = ("blocked_by", "blocked_for") if "blocked_by" in rows.columns else ("NULL", "NULL")
    by_whom, for_what = (f"coalesce({one}, '')" for one in told)
    share = share_sql("blocked", rows.columns)
    found: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for target, labelled_by, provider, category, blocked in (
        rows.filter("blocked > 0 AND label != 'unscored'")
        .aggregate(f"target, coalesce(labelled_by, ''), {by_whom}, {for_what}, sum({share})")
        .fetchall()
    ):
        found.setdefault((target, labelled_by), {})[provider, category] = blocked
    return found


def _places(values: Any, known: Any) -> NDArray[np.int64]:
    """For each value its place in ``known``, -1 where it isn't there."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    known = known if isinstance(known, pa.Array) else pa.array(known, type=pa.string())
    found = pc.fill_null(pc.index_in(values, value_set=known), MISSING)
    return np.asarray(found.to_numpy(), dtype=np.int64)
