"""Many requests at once, each of them accounted for, whatever carries them.

A request ends in an answer or a :class:`Failure`, never in an exception. What may pass is tried
again, waiting longer each time or as long as the endpoint asks. A waiting request keeps its place
among those in flight, so that an endpoint which limits us is asked for less. What cannot pass is not
repeated; and where the endpoint turns us away altogether, or nothing works any more, asking stops.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from overbench_tasks.chat.cache import Failure

MAX_BACKOFF_SEC: Final = 30.0
MAX_RETRY_AFTER_SEC: Final = 120.0
"""An endpoint that asks for a longer wait has ended the matter for this run."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class PassingError(Exception):
    """An attempt failed in a way that may pass; ``wait_sec`` is what the endpoint asked for."""

    def __init__(self, detail: str, wait_sec: float = 0.0) -> None:
        super().__init__(detail)
        self.wait_sec = wait_sec


class LostError(Exception):
    """This request will not be answered."""


class BlockedError(Exception):
    """The provider would not take the request, or withheld the model's words."""


class ClosedError(Exception):
    """No request will be answered."""


class Asking(Generic[Request, Answer]):
    """One run of requests. Afterwards ``stopped_because`` says why asking stopped early, if it did.

    Args:
        attempt: sends one request once; raises one of the four errors above.
        concurrency: most requests in flight at once.
        max_retries: further attempts after one that may pass.
        backoff_sec: about the first wait; doubles each time up to :data:`MAX_BACKOFF_SEC`.
    """

    def __init__(
        self,
        attempt: Callable[[Request], Awaitable[Answer]],
        *,
        concurrency: int,
        max_retries: int,
        backoff_sec: float,
    ) -> None:
        self._attempt = attempt
        self._concurrency = concurrency
        self._max_retries = max_retries
        self._backoff_sec = backoff_sec
        self._lost_in_a_row = 0
        # Each place in flight may lose two before the rest is given up.
        self._patience = max(32, 2 * concurrency)
        self.stopped_because: str | None = None

    async def ask_all(
        self, requests: Iterable[Request], on_outcome: Callable[[Request, Answer | Failure], None]
    ) -> None:
        """Call ``on_outcome`` once for each request that was sent, the moment its outcome is known.

        All are sent unless asking stops. What ``on_outcome`` raises ends the run and is raised here.
        """
        self._stopping = asyncio.Event()
        waiting = iter(requests)

        async def worker() -> None:
            for request in waiting:
                on_outcome(request, await self._outcome(request))
                if self.stopped_because is not None:
                    return

        workers = [asyncio.ensure_future(worker()) for _ in range(self._concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _outcome(self, request: Request) -> Answer | Failure:
        try:
            answer = await self._answer(request)
        except ClosedError as error:
            self._stop(str(error))
            return Failure(str(error))
        except BlockedError as error:
            self._lost_in_a_row = 0
            return Failure(str(error))
        except LostError as error:
            self._lost_in_a_row += 1
            if self._lost_in_a_row >= self._patience:
                self._stop(f"{self._lost_in_a_row} requests in a row failed, the last with {error}")
            return Failure(str(error))
        except Exception as error:
            # Nothing known ends here. But whatever a single request meets, the replies of all others
            # are paid for, and lm-eval would drop the whole run.
            return Failure(f"unexpected {type(error).__name__}")
        self._lost_in_a_row = 0
        return answer

    def _stop(self, reason: str) -> None:
        self.stopped_because = self.stopped_because or reason
        self._stopping.set()

    async def _answer(self, request: Request) -> Answer:
        for attempt in range(self._max_retries + 1):
            try:
                return await self._attempt(request)
            except PassingError as error:
                if (
                    attempt == self._max_retries
                    or self._stopping.is_set()
                    or error.wait_sec > MAX_RETRY_AFTER_SEC
                ):
                    raise LostError(f"{error} ({attempt + 1} attempts)") from error
                backoff = min(self._backoff_sec * 2**attempt, MAX_BACKOFF_SEC)
                # Jitter, so that requests which failed together do not come back together.
                await self.pause(max(error.wait_sec, backoff * random.uniform(0.5, 1.5)))  # noqa: S311
        raise AssertionError("the last attempt returns or raises")

    async def pause(self, seconds: float) -> None:
        """Wait, but not once asking has stopped. For use within a run."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except asyncio.TimeoutError:
            return


def run_in_thread(
    work: Coroutine[Any, Any, None], meanwhile: Callable[[float], object] | None = None
) -> None:
    """Run ``work`` in an event loop of its own; the caller's thread may have one that is running.

    Args:
        work: what it raises is raised here.
        meanwhile: called in the caller's thread, over and over while ``work`` runs; it waits for
            something for at most that many seconds. What it raises cancels ``work``, as
            KeyboardInterrupt does, and is raised once ``work`` has ended; being impatient (a second
            Ctrl-C) does not leave ``work`` behind, to write into what its caller has closed.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    failures: list[Exception] = []
    ended = threading.Event()

    def run() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            failures.append(error)  # raised in the caller's thread
        finally:
            try:
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.close()
            finally:
                ended.set()

    thread = threading.Thread(target=run, name="overbench-asking", daemon=True)
    wait = meanwhile or ended.wait
    try:
        thread.start()
        while not ended.is_set():
            wait(0.2)  # a wait without limit cannot be interrupted on Windows
    except BaseException:
        with suppress(RuntimeError):  # the loop has just closed by itself
            loop.call_soon_threadsafe(task.cancel)
        _outlive(thread, ended)
        raise
    if failures:
        raise failures[0]


def _outlive(thread: threading.Thread, ended: threading.Event) -> None:
    """Wait for the end, whatever is pressed meanwhile; of a thread that was not even begun, not for ever."""
    waits = 0
    while not ended.is_set() and (thread.ident is not None or waits < 10):
        with suppress(KeyboardInterrupt):
            ended.wait(0.2)
            waits += 1
