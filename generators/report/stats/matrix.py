"""The response matrix in memory: which target refused which prompt, and what is known of the prompts.

All numbers of a release and of a report are computed from this one record. Missing and unscored cells
are -1 throughout and are outside every denominator: a gap is never an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import LABELS, Label

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from generators.release.read import Release

REFUSED: Final = 1
ANSWERED: Final = 0
MISSING: Final = -1

CELL_VALUES: Final[Mapping[Label, int]] = {
    "refused": REFUSED,
    "complied": ANSWERED,
    "partial": ANSWERED,
    "unscored": MISSING,
}
"""What a label counts as. ``partial`` is scored and no refusal, as in :mod:`overbench_tasks.metrics`."""


@dataclass(frozen=True)
class ResponseMatrix:
    """Prompts by targets.

    Attributes:
        prompt_ids: (P,), each once.
        targets: (T,), each once.
        values: int8 (P, T): 1 refused, 0 answered (complied or partial), -1 missing or unscored.
        source_targets: (P,), the targets that each prompt was made for; empty where it was made for none.
        categories: (P,), None where unknown.
        features: (P,), the trigger words of each prompt.

    Raises:
        OverbenchError: sizes that don't fit, an id or a target twice, a value other than 1, 0, -1.
    """

    prompt_ids: tuple[str, ...]
    targets: tuple[str, ...]
    values: NDArray[np.int8]
    source_targets: tuple[frozenset[str], ...]
    categories: tuple[str | None, ...]
    features: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        shape = (len(self.prompt_ids), len(self.targets))
        if self.values.shape != shape:
            raise OverbenchError(
                f"Expected a response matrix of {shape[0]:,} prompts by {shape[1]:,} targets, got one of "
                f"shape {self.values.shape}. Give one value for each prompt and target, -1 for none."
            )
        for name in ("source_targets", "categories", "features"):
            if (length := len(getattr(self, name))) != shape[0]:
                raise OverbenchError(
                    f"Expected {name} for {shape[0]:,} prompts, got {length:,}. Give one for each prompt."
                )
        for what, names in (("prompt id", self.prompt_ids), ("target", self.targets)):
            if len(set(names)) < len(names):
                [(twice, _)] = Counter(names).most_common(1)
                raise OverbenchError(f"The {what} {twice!r} is there twice. Join its rows, or rename one.")
        if self.values.size and not (self.values.min() >= MISSING and self.values.max() <= REFUSED):
            raise OverbenchError(
                f"Expected the values 1, 0 and -1 in a response matrix, got {self.values.min()} to "
                f"{self.values.max()}."
            )

    def column(self, target: str) -> NDArray[np.int8]:
        """(P,): the values of one target.

        Raises:
            OverbenchError: there is no such target.
        """
        if target not in self.targets:
            known = ", ".join(self.targets) or "none"
            raise OverbenchError(f"Expected a target of the matrix, got {target!r}. There are: {known}.")
        column: NDArray[np.int8] = self.values[:, self.targets.index(target)]
        return column

    def made_for(self, targets: Iterable[str]) -> NDArray[np.bool_]:
        """(P,): whether a prompt was made for at least one of ``targets``."""
        import numpy as np

        wanted = frozenset(targets)
        return np.array([not wanted.isdisjoint(sources) for sources in self.source_targets], dtype=np.bool_)

    def select(self, keep: NDArray[np.bool_]) -> ResponseMatrix:
        """The same matrix with only the prompts where ``keep`` (P,) is true, in the same order."""
        places = [int(place) for place in keep.nonzero()[0]]
        return ResponseMatrix(
            tuple(self.prompt_ids[place] for place in places),
            self.targets,
            self.values[keep],
            tuple(self.source_targets[place] for place in places),
            tuple(self.categories[place] for place in places),
            tuple(self.features[place] for place in places),
        )

    def with_ids(self, prompt_ids: Iterable[str]) -> ResponseMatrix:
        """The same matrix with only these prompts (a hard set, say); ids it doesn't have are passed over."""
        import numpy as np

        wanted = set(prompt_ids)
        return self.select(np.array([name in wanted for name in self.prompt_ids], dtype=np.bool_))


def matrix_from_tables(prompts: pa.Table, cells: pa.Table, targets: Sequence[str]) -> ResponseMatrix:
    """The matrix of a release's two tables.

    Args:
        prompts: columns ``id`` and, where known, ``source_targets``, ``category``, ``features``.
        cells: columns ``id``, ``target``, ``label``, at most one row for each id and target. Rows of
            ids that ``prompts`` doesn't have (dropped as near duplicates) are passed over.
        targets: in their order, those without a single cell included.

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
    kept = rows >= 0
    rows, columns, labels = rows[kept], columns[kept], labels[kept]
    per_cell = np.bincount(rows * len(names) + columns)
    if per_cell.max(initial=0) > 1:
        row, place = divmod(int(per_cell.argmax()), len(names))
        raise OverbenchError(
            f"The response matrix has two cells for prompt {ids[row].as_py()} and target {names[place]!r}. "
            "Expected one. Make the release anew."
        )
    values = np.full((len(ids), len(names)), MISSING, dtype=np.int8)
    values[rows, columns] = np.array([CELL_VALUES[label] for label in LABELS], dtype=np.int8)[labels]
    return ResponseMatrix(
        tuple(ids.to_pylist()),
        names,
        values,
        tuple(frozenset(sources or ()) for sources in _column(prompts, "source_targets")),
        tuple(_column(prompts, "category")),
        tuple(tuple(words or ()) for words in _column(prompts, "features")),
    )


def release_matrix(release: Release, *, hard: bool = False) -> ResponseMatrix:
    """The matrix of a release, or of its hard set; targets by name, those without a reply included.

    Raises:
        OverbenchError: a file cannot be read, or its tables don't fit together.
    """
    prompts = release.prompts(hard=hard, columns=("id", "source_targets", "category", "features"))
    return matrix_from_tables(prompts, release.matrix(), [target.target for target in release.targets()])


def _places(values: Any, known: Any) -> NDArray[np.int64]:
    """For each value its place in ``known``, -1 where it isn't there."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    known = known if isinstance(known, pa.Array) else pa.array(known, type=pa.string())
    found = pc.fill_null(pc.index_in(values, value_set=known), MISSING)
    return np.asarray(found.to_numpy(), dtype=np.int64)


def _column(table: pa.Table, name: str) -> list[Any]:
    return table[name].to_pylist() if name in table.column_names else [None] * table.num_rows
