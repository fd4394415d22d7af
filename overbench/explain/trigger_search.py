"""Which parts of a text make a target refuse: a minimal set that turns the refusal when it is taken out.

Delta debugging (Zeller and Hildebrandt 2002, "Simplifying and isolating failure-inducing input", IEEE TSE
28(2)), on sets of parts that are taken out: what they call a failing test is here a refusal that turned, and
the sets found are 1-minimal as they define it (section 3.2). Departures, all to ask the target less:

- Every part is tried alone first, since most triggers are a single word; all parts that turn the refusal
  alone are kept.
- A set of several is found by bisection of prefixes, as in QuickXplain (Junker 2004, AAAI): the part whose
  joining turns the refusal stays, then the parts before it are bisected with it taken out. That asks about
  k log2(n) times for k of n parts, less often than ddmin's chunks and complements. ddmin's last step, each
  set with one part less, then proves the set 1-minimal, or makes it smaller.
- Nothing is assumed of the whole: where taking out everything leaves a refusal, halves and quarters are
  tried before the search gives up.

No model is met here: the search says what it wants to know, a batch at a time, and is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

Removal = frozenset[int]
"""Numbers of the parts that are taken out together."""


class TriggerSearch:
    """One search. Its steps are asked in order, and their outcomes put into :attr:`known` before the next.

    Args:
        parts: numbers of the parts that may be taken out, in the order of the text.
        promising: the same, the most promising first: in this order parts are tried alone.
        most_alone: no more parts than these are tried alone before delta debugging.
        all_first: whether everything is taken out first, and nothing else tried where that turns nothing.

    Attributes:
        known: what was asked so far, and whether it turned the refusal; None: asked, and no reply tells.
        triggers: the minimal sets found: no set with one part less turns the refusal, and that is known of
            each. Several where several parts turn it alone.
        complete: whether the search came to its end.
    """

    def __init__(
        self,
        parts: Sequence[int],
        promising: Sequence[int] | None = None,
        *,
        most_alone: int = 24,
        all_first: bool = False,
    ) -> None:
        self.known: dict[Removal, bool | None] = {}
        self.scores: Mapping[int, float] = {}
        """Of parts taken out alone, how far that went, where it is known; delta debugging begins there."""
        self.triggers: list[Removal] = []
        self.complete = False
        self._parts = list(parts)
        self._promising = list(promising if promising is not None else parts)
        self._most_alone = most_alone
        self._all_first = all_first

    def best_known(self) -> Removal | None:
        """The smallest set so far that turns the refusal; None: none does."""
        turned = (removal for removal, outcome in self.known.items() if outcome)
        return min(turned, key=lambda removal: (len(removal), sorted(removal)), default=None)

    def steps(self) -> Iterator[list[Removal]]:
        """Batches of sets that aren't known yet, never empty and never the same set twice."""
        everything = frozenset(self._parts)
        if self._all_first:
            yield from self._ask([everything])
        if everything and (not self._all_first or self.known[everything] is not False):
            alone = [frozenset({part}) for part in self._promising[: self._most_alone]]
            yield from self._ask(alone)
            self.triggers = [one for one in alone if self.known[one]]
            if not self.triggers:
                yield from self._several()
        self.complete = True

    def _several(self) -> Iterator[list[Removal]]:
        # In the order of the text, chunks are phrases; with scores, the first chunk holds what did most.
        parts = sorted(self._parts, key=lambda part: -self.scores.get(part, 0.0))
        everything = frozenset(parts)
        yield from self._ask([everything])
        whole = everything if self.known[everything] else None
        for count in (2, 4) if whole is None else ():
            chunks = _chunks(parts, count)
            larger = [rest for chunk in chunks if (rest := everything - chunk)]
            yield from self._ask([*larger, *chunks])
            whole = next((one for one in (*chunks, *larger) if self.known[one]), None)
            if whole is not None:
                break
        if whole is not None:
            yield from self._minimised([part for part in parts if part in whole])

    def _minimised(self, parts: list[int]) -> Iterator[list[Removal]]:
        """Of parts whose removal turns the refusal those that are needed for that, one after the other."""
        needed: Removal = frozenset()
        while True:
            yield from self._ask([needed] if needed else [])
            if needed and self.known[needed]:
                break
            low, high = 0, len(parts)  # with parts[:low] gone it is refused, with parts[:high] it is not
            while high - low > 1:
                middle = (low + high) // 2
                removal = needed | frozenset(parts[:middle])
                yield from self._ask([removal])
                low, high = (low, middle) if self.known[removal] else (middle, high)
            needed |= {parts[high - 1]}
            parts = parts[: high - 1]
        yield from self._proved(needed)

    def _proved(self, found: Removal) -> Iterator[list[Removal]]:
        """Take parts back for as long as the refusal stays turned; then no set with one less turns it."""
        while len(found) > 1:
            smaller = [found - {part} for part in sorted(found)]
            yield from self._ask(smaller)
            turned = next((one for one in smaller if self.known[one]), None)
            if turned is None:
                break
            found = turned
        if len(found) == 1 or all(self.known[found - {part}] is False for part in found):
            self.triggers = [found]

    def _ask(self, removals: Sequence[Removal]) -> Iterator[list[Removal]]:
        if new := [one for one in dict.fromkeys(removals) if one not in self.known]:
            yield new


def _chunks(parts: Sequence[int], count: int) -> list[Removal]:
    """``count`` runs of neighbours, or as many as there are parts; none is empty."""
    count = min(count, len(parts))
    ends = [len(parts) * place // count for place in range(count + 1)]
    return [frozenset(parts[start:end]) for start, end in pairwise(ends)]
