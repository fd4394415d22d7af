"""Asks a model many things at once and pays for nothing twice.

How attempts are repeated and when asking stops is :mod:`overbench_tasks.chat.asking`'s, as for the judge; the
SDK's own retries are off. A reply is on file the moment it arrives. A request that is not answered is
a :class:`~overbench_tasks.chat.cache.Failure`, kept apart: an outage never becomes text.
"""

from __future__ import annotations

import dataclasses
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from overbench_tasks.chat.asking import Asking, LostError, run_in_thread
from overbench_tasks.chat.cache import Failure
from overbench_tasks.chat.client import Request
from overbench_tasks.chat.endpoint import EndpointSettings, estimated_tokens
from overbench_tasks.chat.reply_cache import ChatCache, Reply, open_cache
from overbench_tasks.chat.transport import Transport, check_model, listed_models

NOT_ASKED: Final = "not asked"
"""How the detail of a failure begins whose request was never sent; no money was spent on it."""

Outcome = Reply | Failure


class Chat:
    """One model, ready to be asked.

    After :meth:`ask`, ``stopped_because`` says why asking ended early, or is None.
    """

    def __init__(self, settings: EndpointSettings, cache_file: Path) -> None:
        self._settings = settings
        self._cache_file = cache_file
        self.stopped_because: str | None = None

    def check(self) -> None:
        """Ask for nothing that costs money, and find what would make every request fail.

        Raises:
            ChatError: no key, a cache that can't be written, nobody at the URL, a key that is not
                accepted, a model that the endpoint does not list.
        """
        self._settings.key()
        with open_cache(self._cache_file, self._settings.model):
            pass
        listed: list[list[str] | None] = []

        async def probe() -> None:
            listed.append(await listed_models(self._settings))

        run_in_thread(probe())
        check_model(self._settings, listed[0])

    def cached(self, requests: Sequence[Request]) -> int:
        """How many of these are on file, each counted as often as it stands there."""
        with open_cache(self._cache_file, self._settings.model) as cache:
            found = cache.replies([request.key for request in requests])
        return sum(request.key in found for request in requests)

    def ask(
        self,
        requests: Sequence[Request],
        *,
        on_outcome: Callable[[int, Outcome], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> list[Outcome]:
        """One outcome per request, in the order of the requests.

        What is on file is not sent, nor is an equal request sent twice. Replies are on file the moment
        they arrive, so that after an interruption at any time the next call asks for the rest only.
        Works where an event loop is running.

        Args:
            requests: as :meth:`EndpointSettings.request` makes them.
            on_outcome: called in the caller's thread with each index and outcome, in the order of the
                requests, as soon as those before have theirs; more requests fly meanwhile.
            should_stop: asked before each request is sent, from another thread; True: send no more.

        Raises:
            ChatError: no key; the replies can't be kept.
            KeyboardInterrupt, or what ``on_outcome`` raises: what had arrived is kept.
        """
        self.stopped_because = None
        outcomes: list[Outcome | None] = [None] * len(requests)
        report = _InOrder(outcomes, on_outcome)
        places: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            places.setdefault(request.key, []).append(index)

        def settle(key: str, outcome: Outcome) -> None:
            first, *others = places[key]
            outcomes[first] = outcome
            for index in others:
                outcomes[index] = _paid(outcome)
            report.advance()

        key = self._settings.key()
        with open_cache(self._cache_file, self._settings.model) as cache:
            known = cache.replies(list(places))
            for name, reply in known.items():
                settle(name, reply)
            missing = [requests[where[0]] for name, where in places.items() if name not in known]
            if missing:
                self._ask_missing(missing, key, cache, settle, should_stop)
        reason = f"{NOT_ASKED}: {self.stopped_because}" if self.stopped_because else NOT_ASKED
        for name, where in places.items():
            if outcomes[where[0]] is None:
                settle(name, Failure(reason))
        return [outcome for outcome in outcomes if outcome is not None]

    def _ask_missing(
        self,
        missing: list[Request],
        key: SecretStr | None,
        cache: ChatCache,
        settle: Callable[[str, Outcome], None],
        should_stop: Callable[[], bool] | None,
    ) -> None:
        arrived: queue.SimpleQueue[tuple[str, Outcome] | None] = queue.SimpleQueue()
        transport = Transport(self._settings, key)
        requests, tokens = Pace(self._settings.requests_per_minute), Pace(self._settings.tokens_per_minute)

        async def attempt(request: Request) -> Reply:
            now = time.monotonic()
            cost = estimated_tokens(request.data.decode()) + self._settings.max_tokens
            if wait_sec := max(requests.reserve(1, now), tokens.reserve(cost, now)):
                await asking.pause(wait_sec)
                if asking.stopped_because:
                    raise LostError(NOT_ASKED)
            return await transport.attempt(request)

        asking = Asking[Request, Reply](
            attempt,
            concurrency=min(self._settings.concurrency, len(missing)),
            max_retries=self._settings.attempts - 1,
            backoff_sec=self._settings.backoff_sec,
        )

        def keep(request: Request, outcome: Outcome) -> None:
            # In the thread of the requests: what is paid for does not wait for what is done with it.
            if isinstance(outcome, Failure):
                cache.add_failure(request.key, outcome)
            else:
                cache.add(request.key, outcome)
            arrived.put((request.key, outcome))

        def allowed() -> Iterator[Request]:
            for request in missing:
                if should_stop is not None and should_stop():
                    return
                yield request

        async def work() -> None:
            try:
                async with transport.open():
                    await asking.ask_all(allowed(), keep)
            finally:
                arrived.put(None)

        def meanwhile(seconds: float) -> None:
            try:
                outcome = arrived.get(timeout=seconds)
            except queue.Empty:
                return
            if outcome is not None:
                settle(*outcome)

        run_in_thread(work(), meanwhile)
        while not arrived.empty():
            meanwhile(0)
        self.stopped_because = asking.stopped_because


class Pace:
    """Spreads a cost over time in a steady stream of ``per_minute``, without bursts."""

    def __init__(self, per_minute: float | None) -> None:
        self._sec_per_unit = 60.0 / per_minute if per_minute else 0.0
        self._free_at = 0.0

    def reserve(self, cost: float, now: float) -> float:
        """How long to wait, in seconds, before spending ``cost``; it is taken as spent then."""
        start = max(now, self._free_at)
        self._free_at = start + cost * self._sec_per_unit
        return start - now


def _paid(outcome: Outcome) -> Outcome:
    """The outcome for a request equal to one that is already accounted for."""
    if isinstance(outcome, Failure) or outcome.cached:
        return outcome
    return dataclasses.replace(outcome, cached=True)


class _InOrder:
    """Reports outcomes in their order, each as soon as all before it are there."""

    def __init__(
        self, outcomes: list[Outcome | None], on_outcome: Callable[[int, Outcome], None] | None
    ) -> None:
        self._outcomes = outcomes
        self._on_outcome = on_outcome
        self._next = 0

    def advance(self) -> None:
        while self._next < len(self._outcomes) and (outcome := self._outcomes[self._next]) is not None:
            index, self._next = self._next, self._next + 1
            if self._on_outcome is not None:
                self._on_outcome(index, outcome)
