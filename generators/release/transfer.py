"""The transfer matrix: how often prompts made for one target are refused by another."""

from __future__ import annotations

from dataclasses import dataclass

from generators.release.matrix_view import ResponseMatrix
from generators.release.rates import Rate, osr


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
    rates, prompts = [], []
    for source in sources:
        chosen = matrix.made_for([source])
        own = osr(matrix.select(chosen))
        # Most prompts have one source; only the others need a second look, for each target.
        shared = np.array([len(names) > 1 for names in matrix.source_targets], dtype=np.bool_) & chosen
        row = []
        for target in matrix.targets:
            if target == source or not shared.any():
                row.append(own[target])
            else:
                row.append(osr(matrix.select(chosen & ~matrix.made_for([target])))[target])
        rates.append(tuple(row))
        prompts.append(int(chosen.sum()))
    return Transfer(tuple(sources), matrix.targets, tuple(rates), tuple(prompts))
