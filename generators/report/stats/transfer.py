"""The transfer matrix: how often prompts made for one target are refused by another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generators.report.stats.matrix import ANSWERED, REFUSED, ResponseMatrix
from overbench_tasks.metrics import Rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Transfer:
    """Rates by source and target.

    Attributes:
        sources: (S,), the targets that prompts were made for: those of the matrix in its order, then
            others by name.
        targets: (T,), as in the matrix.
        rates: (S, T): ``rates[a][b]`` is how often ``targets[b]`` refuses prompts made for ``sources[a]``,
            with their number ``n``.
        prompts: (S,), how many prompts were made for each source, answered or not.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    rates: tuple[tuple[Rate, ...], ...]
    prompts: tuple[int, ...]


def transfer(matrix: ResponseMatrix) -> Transfer:
    """Refusals of each source's prompts by each target, over the prompts that it has a scored reply to.

    Where source and target are the same, a set of verified prompts has 1 by construction, whatever the
    model. Elsewhere prompts that were made for both are left out, since they were chosen by this target
    as well; a prompt made for several sources counts for each of them. Prompts made for no target are
    nowhere in this table.
    """
    import numpy as np

    found = frozenset[str]().union(*matrix.source_targets)
    sources = [name for name in matrix.targets if name in found] + sorted(found.difference(matrix.targets))
    shape = (len(matrix.prompt_ids), len(sources))
    made = np.array([matrix.made_for([source]) for source in sources], dtype=np.bool_).reshape(shape[::-1]).T

    def counted(outcome: NDArray[np.bool_]) -> NDArray[np.int64]:
        """(S, T): the cells of ``outcome`` (P, T) in the prompts of each source."""
        counts = np.zeros((len(sources), len(matrix.targets)), dtype=np.int64)
        for column, target in enumerate(matrix.targets):
            own = sources.index(target) if target in sources else None
            chosen = made if own is None else made & ~made[:, [own]]
            counts[:, column] = chosen[outcome[:, column]].sum(axis=0)
            if own is not None:
                counts[own, column] = (made[:, own] & outcome[:, column]).sum()
        return counts

    refused, scored = counted(matrix.values == REFUSED), counted(matrix.values >= ANSWERED)
    rates = tuple(
        tuple(Rate(int(part), int(whole)) for part, whole in zip(*rows, strict=True))
        for rows in zip(refused, scored, strict=True)
    )
    return Transfer(tuple(sources), matrix.targets, rates, tuple(int(count) for count in made.sum(axis=0)))
