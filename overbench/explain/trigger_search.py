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

No model is met here: the search asks for what it needs, a batch at a time, by a function that it is given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

Removal = frozenset[int]
"""Numbers of the parts that are taken out together."""


class RemovalResult(NamedTuple):
    """What taking a set of parts out did.

    Attributes:
        turned: whether the refusal turned; None: no reply tells.
        log_probability: by probability, that the reply opens as a refusal does; None: not by probability.
    """

    turned: bool | None
    log_probability: float | None = None


Ask = Callable[[Sequence[Removal]], Awaitable[Mapping[Removal, RemovalResult]]]
"""The result of each set of a batch, never empty; of fewer where no more can be asked."""


class _NoMoreAnswersError(Exception):
    """Some of a batch stayed without a result."""


class TriggerSearch:
    """One search, done by :meth:`run`.

    Args:
        parts: numbers of the parts that may be taken out, in the order of the text.
        promising: the same, the most promising first: in this order parts are tried alone.
        most_alone: no more parts than these are tried alone before delta debugging.
        all_first: whether everything is taken out first, and nothing else tried where that turns nothing.

    Attributes:
        results: of what was asked so far, in that order.
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
        self.results: dict[Removal, RemovalResult] = {}
        self.triggers: list[Removal] = []
        self.complete = False
        self._parts = list(parts)
        self._promising = list(promising if promising is not None else parts)
        self._most_alone = most_alone
        self._all_first = all_first

    def smallest_turning(self) -> Removal | None:
        """The smallest set so far that turns the refusal; None: none does."""
        turning = (removal for removal, result in self.results.items() if result.turned)
        return min(turning, key=lambda removal: (len(removal), sorted(removal)), default=None)

    async def run(self, ask: Ask) -> None:
        """Search to the end, or until ``ask`` leaves a set without a result; no set is asked twice."""
        try:
            await self._search(ask)
        except _NoMoreAnswersError:
            return
        self.complete = True

    async def _search(self, ask: Ask) -> None:
        everything = frozenset(self._parts)
        if self._all_first:
            [everything_turns] = await self._turned(ask, [everything])
            if everything_turns is False:
                return
        if not everything:
            return
        alone = [frozenset({part}) for part in self._promising[: self._most_alone]]
        turned = await self._turned(ask, alone)
        self.triggers = [removal for removal, turns in zip(alone, turned, strict=True) if turns]
        if self.triggers:
            return
        # In the order of the text, chunks are phrases; by probability, the first chunk holds what did most.
        parts = sorted(self._parts, key=self._log_probability_without)
        removal = await self._turning_removal(ask, parts)
        if removal is not None:
            needed = await self._needed(ask, [part for part in parts if part in removal])
            await self._prove(ask, needed)

    def _log_probability_without(self, part: int) -> float:
        result = self.results.get(frozenset({part}))
        return (result.log_probability if result else None) or 0.0

    async def _turning_removal(self, ask: Ask, parts: Sequence[int]) -> Removal | None:
        """Many parts whose removal turns the refusal: all, or some halves and quarters of them."""
        everything = frozenset(parts)
        if (await self._turned(ask, [everything]))[0]:
            return everything
        for count in (2, 4):
            chunks = _chunks(parts, count)
            larger = [rest for chunk in chunks if (rest := everything - chunk)]
            await self._turned(ask, [*larger, *chunks])
            turning = next((removal for removal in (*chunks, *larger) if self.results[removal].turned), None)
            if turning is not None:
                return turning
        return None

    async def _needed(self, ask: Ask, parts: list[int]) -> Removal:
        """Of parts whose removal turns the refusal those that are needed for that, one after the other."""
        needed: Removal = frozenset()
        while True:
            if needed and (await self._turned(ask, [needed]))[0]:
                return needed
            low, high = 0, len(parts)  # with parts[:low] gone it is refused, with parts[:high] it is not
            while high - low > 1:
                middle = (low + high) // 2
                [turns] = await self._turned(ask, [needed | frozenset(parts[:middle])])
                low, high = (low, middle) if turns else (middle, high)
            needed |= {parts[high - 1]}
            parts = parts[: high - 1]

    async def _prove(self, ask: Ask, removal: Removal) -> None:
        """Take parts back for as long as the refusal stays turned; then no set with one less turns it."""
        while len(removal) > 1:
            smaller = [removal - {part} for part in sorted(removal)]
            turned = await self._turned(ask, smaller)
            if not any(turned):
                if None in turned:
                    return  # not known of each
                break
            removal = smaller[turned.index(True)]
        self.triggers = [removal]

    async def _turned(self, ask: Ask, removals: Sequence[Removal]) -> list[bool | None]:
        """Whether each of these turns the refusal; only what has no result yet is asked."""
        new = [removal for removal in dict.fromkeys(removals) if removal not in self.results]
        if new:
            self.results.update(await ask(new))
            if any(removal not in self.results for removal in new):
                raise _NoMoreAnswersError
        return [self.results[removal].turned for removal in removals]


def _chunks(parts: Sequence[int], count: int) -> list[Removal]:
    """``count`` runs of neighbours, or as many as there are parts; none is empty."""
    count = min(count, len(parts))
    ends = [len(parts) * index // count for index in range(count + 1)]
    return [frozenset(parts[start:end]) for start, end in pairwise(ends)]
