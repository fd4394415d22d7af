"""What the target is asked for one prompt: each question once, a failed one once more, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from generators.targets.target import Question
from overbench.explain.cached_target import Answer, TargetRequest
from overbench.explain.side_by_side import Batch


class PromptCalls:
    """The calls for one prompt and its variants.

    Args:
        budget: calls at most, as far as failed requests are made again and :meth:`affordable` is heeded.
        kept_back: calls of these that no failed request may use up.

    Attributes:
        repeated: calls that were made again since they had failed.
    """

    def __init__(self, budget: int, kept_back: int = 0) -> None:
        self.kept_back = kept_back
        self.repeated = 0
        self._budget = budget
        self._answers: dict[TargetRequest, Answer] = {}

    async def ask(self, requests: Sequence[TargetRequest]) -> list[Answer]:
        """An answer for each request, in order; repeated requests are not asked again."""
        new = [request for request in dict.fromkeys(requests) if request not in self._answers]
        if new:
            self._answers.update(zip(new, await Batch(new), strict=True))
            again = list(self._repeatable(new))
            if again:
                self._answers.update(zip(again, await Batch(again), strict=True))
        return [self._answers[request] for request in requests]

    def _repeatable(self, requests: Iterable[TargetRequest]) -> Iterable[TargetRequest]:
        """Those of the requests that failed, as far as the budget allows; they count from now on."""
        for request in requests:
            failed = self._answers[request].failed
            if failed and self.calls + failed + self.kept_back <= self._budget:
                self.repeated += failed
                yield request

    @property
    def calls(self) -> int:
        """Replies of the target so far, and variants that were judged by probability."""
        return self._total(lambda request: request.times)

    @property
    def requests(self) -> int:
        """The same by what the backend is sent: each opening is one."""
        return self._total(lambda request: request.requests)

    def _total(self, size: Callable[[TargetRequest], int]) -> int:
        # Asked five times, a question was asked twice before: the longer request holds the shorter one.
        largest: dict[tuple[Question, tuple[str, ...]], int] = {}
        for request in self._answers:
            key = (request.question, request.openings)
            largest[key] = max(size(request), largest.get(key, 0))
        return sum(largest.values()) + self.repeated

    def affordable(self, requests: Sequence[TargetRequest]) -> int:
        """How many of the requests, from the first on, the budget allows."""
        left = self._budget - self.calls
        for number, request in enumerate(requests):
            left -= 0 if request in self._answers else request.times
            if left < 0:
                return number
        return len(requests)
