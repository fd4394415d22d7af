"""Explanations that ask the target together: what all of them wait for goes to the backend as one batch.

Each explanation is a coroutine that reads from top to bottom: ``answers = await Batch(requests)``. There is
no event loop and no thread. :func:`side_by_side` runs all of them up to what they wait for, gets the answers,
and hands each its own. So requests come in the same order whenever it is done again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from overbench.explain.cached_target import Answer, TargetRequest
from overbench.explain.explanation import Explanation

Requests = list[TargetRequest]
Answers = list[Answer]
Explaining = Coroutine[Requests, Answers, Explanation]


class Batch:
    """Requests to the target; awaited, their answers, one per request in order."""

    def __init__(self, requests: Sequence[TargetRequest]) -> None:
        self._requests = list(requests)

    def __await__(self) -> Generator[Requests, Answers, Answers]:
        return (yield self._requests)


class _Waiting(NamedTuple):
    explaining: Explaining
    requests: Requests


def side_by_side(
    explanations: Iterable[Explaining], at_once: int, answers_to: Callable[[Requests], Answers]
) -> Iterator[Explanation]:
    """Each explanation as it comes to its end; at most ``at_once`` of them are under way.

    Args:
        explanations: begun in this order. Each awaits at least one :class:`Batch`, and nothing else.
        answers_to: one answer per request, in order.
    """
    to_begin = iter(explanations)
    under_way: list[_Waiting] = []
    while True:
        for explaining in islice(to_begin, at_once - len(under_way)):
            under_way.append(_Waiting(explaining, explaining.send(None)))  # type: ignore[arg-type]
        if not under_way:
            return
        answers = iter(answers_to([request for waiting in under_way for request in waiting.requests]))
        still_under_way: list[_Waiting] = []
        for explaining, requests in under_way:
            try:
                next_requests = explaining.send(list(islice(answers, len(requests))))
            except StopIteration as end:
                yield end.value
            else:
                still_under_way.append(_Waiting(explaining, next_requests))
        under_way = still_under_way
