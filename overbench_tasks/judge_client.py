"""Asking an OpenAI-compatible endpoint many things at once, and accounting for each of them.

A request ends in an :class:`Answer` or a :class:`Failure`, never in an exception. What may pass
(time-outs, dropped connections, broken JSON, HTTP 408, 409, 429 and 5xx) is tried again, waiting
longer each time or as long as ``Retry-After`` says. A waiting request keeps its place among those
in flight, so that an endpoint which limits us is asked for less. What cannot pass is not repeated;
and where the endpoint turns us away altogether, or nothing works any more, asking stops.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import SecretStr

from overbench_tasks.judge_cache import Answer, Failure
from overbench_tasks.judge_settings import KEY_VARIABLES, JudgeSettings

if TYPE_CHECKING:
    import aiohttp

MAX_BACKOFF_SEC: Final = 30.0
MAX_RETRY_AFTER_SEC: Final = 120.0
"""An endpoint that asks for a longer wait has ended the matter for this run."""

_POLICY_CODES = frozenset({"content_filter", "content_policy_violation"})
_NO_CREDIT_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_PASSING = frozenset({408, 409, 425, 429})
_CLOSED = {
    401: f"HTTP 401: the key was not accepted; check {' or '.join(KEY_VARIABLES)}",
    403: "HTTP 403: the key may not use this model or endpoint",
    404: "HTTP 404: no such model or endpoint; check OVERBENCH_JUDGE_MODEL and OVERBENCH_JUDGE_BASE_URL",
}


class Request(NamedTuple):
    """``data`` is the complete body, ``key`` its name in the cache."""

    key: str
    data: bytes


OnOutcome = Callable[[Request, Answer | Failure], None]


class _PassingError(Exception):
    """An attempt failed in a way that may pass; ``wait_sec`` is what the endpoint asked for."""

    def __init__(self, detail: str, wait_sec: float = 0.0) -> None:
        super().__init__(detail)
        self.wait_sec = wait_sec


class _LostError(Exception):
    """This request will not be answered."""


class _BlockedError(Exception):
    """The provider would not take the request, or withheld the judge's words."""


class _ClosedError(Exception):
    """No request will be answered."""


class ChatClient:
    """One run of requests. Afterwards ``stopped_because`` says why asking stopped early, if it did."""

    def __init__(self, settings: JudgeSettings, key: SecretStr | None) -> None:
        self._settings = settings
        self._key = key
        self._proxy = _proxy(settings.url)
        self._lost_in_a_row = 0
        # Each place in flight may lose two before the rest is given up.
        self._patience = max(32, 2 * settings.concurrency)
        self.stopped_because: str | None = None

    async def ask_all(self, requests: Iterable[Request], on_outcome: OnOutcome) -> None:
        """Call ``on_outcome`` once for each request that was sent, the moment its outcome is known.

        All are sent unless asking stops.
        """
        import aiohttp

        self._stopping = asyncio.Event()
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        waiting = iter(requests)
        async with aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout_sec),
            # The workers are the limit.
            connector=aiohttp.TCPConnector(limit=0),
        ) as session:

            async def worker() -> None:
                for request in waiting:
                    on_outcome(request, await self._outcome(session, request))
                    if self.stopped_because is not None:
                        return

            await asyncio.gather(*(worker() for _ in range(self._settings.concurrency)))

    async def _outcome(self, session: aiohttp.ClientSession, request: Request) -> Answer | Failure:
        try:
            answer = await self._answer(session, request)
        except _ClosedError as error:
            self._stop(str(error))
            return Failure(str(error))
        except _BlockedError as error:
            self._lost_in_a_row = 0
            return Failure(str(error))
        except _LostError as error:
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

    async def _answer(self, session: aiohttp.ClientSession, request: Request) -> Answer:
        for attempt in range(self._settings.max_retries + 1):
            try:
                return await self._attempt(session, request)
            except _PassingError as error:
                if (
                    attempt == self._settings.max_retries
                    or self._stopping.is_set()
                    or error.wait_sec > MAX_RETRY_AFTER_SEC
                ):
                    raise _LostError(f"{error} ({attempt + 1} attempts)") from error
                backoff = min(self._settings.backoff_sec * 2**attempt, MAX_BACKOFF_SEC)
                # Jitter, so that requests which failed together do not come back together.
                await self._sleep(max(error.wait_sec, backoff * random.uniform(0.5, 1.5)))  # noqa: S311
        raise AssertionError("the last attempt returns or raises")

    async def _sleep(self, seconds: float) -> None:
        """Wait, but not once asking has stopped."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except asyncio.TimeoutError:
            return

    async def _attempt(self, session: aiohttp.ClientSession, request: Request) -> Answer:
        import aiohttp

        try:
            async with session.post(
                self._settings.url,
                data=request.data,
                proxy=self._proxy,
                # A redirect would carry the key to another host.
                allow_redirects=False,
            ) as response:
                body = await response.read()
        except asyncio.TimeoutError as error:
            raise _PassingError(
                f"no answer within {self._settings.timeout_sec:g} s; "
                "a slow endpoint wants a lower concurrency or a higher timeout_sec"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _PassingError(f"connection failed: {type(error).__name__}") from error
        if response.status == 200:
            return _read_answer(body)
        raise self._refused(response.status, response.headers.get("Retry-After"), body)

    def _refused(self, status: int, retry_after: str | None, body: bytes) -> Exception:
        code = _error_code(body)
        if status in _CLOSED:
            return _ClosedError(_CLOSED[status])
        if code in _NO_CREDIT_CODES:
            return _ClosedError(f"HTTP {status}: {code}")
        if code in _POLICY_CODES:
            return _BlockedError(f"HTTP {status}: {code}")
        if status in _PASSING or status >= 500:
            return _PassingError(f"HTTP {status}", retry_after_sec(retry_after))
        said = " ".join(body[:300].decode("utf-8", "replace").split())
        if self._key is not None:
            said = said.replace(self._key.get_secret_value(), "***")
        return _LostError(f"HTTP {status}: {said}")


def _read_answer(body: bytes) -> Answer:
    """The answer in a chat completion."""
    try:
        completion = json.loads(body)
        choice = completion["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        text, declined = message.get("content"), message.get("refusal")
        usage = completion.get("usage") or {}
        tokens = [_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _PassingError("the response is not a whole chat completion") from error
    if finish == "content_filter" or declined:
        raise _BlockedError("the provider withheld the judge's answer")
    if text is None and finish == "length":
        text = ""  # all tokens went into reasoning
    if not isinstance(text, str):
        raise _LostError("the chat completion holds no text")
    if finish == "length":
        # The cut may have fallen inside the last word, or before a second thought.
        text += "\n[cut off by max_tokens]"
    # Half a surrogate pair is valid JSON and cannot be stored.
    return Answer(text.encode("utf-8", "replace").decode("utf-8"), tokens[0], tokens[1])


def _error_code(body: bytes) -> str | None:
    """``error.code`` of an error response, as OpenAI and Azure name its cause."""
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return code if isinstance(code, str) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**53 else 0


def retry_after_sec(header: str | None, now: datetime | None = None) -> float:
    """The wait that a ``Retry-After`` header asks for, at least 0; 0 where there is none to read.

    Both forms of RFC 9110, section 10.2.3: seconds (decimals too, as some send) and an HTTP date.
    """
    if not header:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        try:
            until = parsedate_to_datetime(header)
        except (ValueError, TypeError, OverflowError):
            return 0.0
        if until.tzinfo is None:
            until = until.replace(tzinfo=timezone.utc)
        seconds = (until - (now or datetime.now(timezone.utc))).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def _proxy(url: str) -> str | None:
    """The proxy of the environment for ``url``. aiohttp's own way would also read ~/.netrc."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "127.0.0.1", "::1") or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)
