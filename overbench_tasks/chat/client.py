"""Asking an OpenAI-compatible endpoint many things at once, and what its responses mean.

How requests are repeated and when asking stops: :mod:`overbench_tasks.chat.asking`. May pass: time-outs,
dropped connections, broken JSON, HTTP 408, 409, 429 and 5xx.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import SecretStr

from overbench_tasks.chat.asking import Asking, BlockedError, ClosedError, LostError, PassingError
from overbench_tasks.chat.cache import Answer, Failure
from overbench_tasks.judge_settings import KEY_VARIABLES, JudgeSettings
from overbench_tasks.text import encodable

if TYPE_CHECKING:
    import aiohttp

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


class ChatClient:
    """One run of requests. Afterwards ``stopped_because`` says why asking stopped early, if it did."""

    def __init__(self, settings: JudgeSettings, key: SecretStr | None) -> None:
        self._settings = settings
        self._key = key
        self._proxy = _proxy(settings.url)
        self.stopped_because: str | None = None

    async def ask_all(self, requests: Iterable[Request], on_outcome: OnOutcome) -> None:
        """Call ``on_outcome`` once for each request that was sent, the moment its outcome is known.

        All are sent unless asking stops.
        """
        import aiohttp

        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        async with aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout_sec),
            # The workers are the limit.
            connector=aiohttp.TCPConnector(limit=0),
        ) as session:
            asking = Asking[Request, Answer](
                lambda request: self._attempt(session, request),
                concurrency=self._settings.concurrency,
                max_retries=self._settings.max_retries,
                backoff_sec=self._settings.backoff_sec,
            )
            await asking.ask_all(requests, on_outcome)
        self.stopped_because = asking.stopped_because

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
            raise PassingError(
                f"no answer within {self._settings.timeout_sec:g} s; "
                "a slow endpoint wants a lower concurrency or a higher timeout_sec"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise PassingError(f"connection failed: {type(error).__name__}") from error
        if response.status == 200:
            return _read_answer(body)
        retry_after = response.headers.get("Retry-After")
        raise failed_response(response.status, retry_after, body, closed=_CLOSED, key=self._key)


def failed_response(
    status: int, retry_after: str | None, body: bytes, *, closed: Mapping[int, str], key: SecretStr | None
) -> Exception:
    """What a response that is no success means for its request, as one of the errors of ``asking``.

    Args:
        status: the HTTP status.
        retry_after: the header of that name.
        body: of the response.
        closed: the statuses after which nothing will be answered, each with what to say of it.
        key: never repeated, even where the endpoint does.
    """
    code = _error_code(body)
    if status in closed:
        return ClosedError(closed[status])
    if code in _NO_CREDIT_CODES:
        return ClosedError(f"HTTP {status}: {code}")
    if code in _POLICY_CODES:
        return BlockedError(f"HTTP {status}: {code}")
    if status in _PASSING or status >= 500:
        return PassingError(f"HTTP {status}", retry_after_sec(retry_after))
    said = " ".join(body[:300].decode("utf-8", "replace").split())
    if key is not None:
        said = said.replace(key.get_secret_value(), "***")
    return LostError(f"HTTP {status}: {said}")


class Completion(NamedTuple):
    """One choice of a chat completion. ``declined``: the API marked it as a refusal or blocked it."""

    text: str
    finish_reason: str
    declined: bool
    prompt_tokens: int
    completion_tokens: int


def read_completion(body: bytes) -> Completion:
    """The first choice in a chat completion.

    Raises:
        PassingError: the body is something else, or not whole.
        LostError: it is whole and holds no text.
    """
    try:
        completion = json.loads(body)
        choice = completion["choices"][0]
        message, finish = choice["message"], str(choice.get("finish_reason"))
        text, refusal = message.get("content"), message.get("refusal")
        usage = completion.get("usage") or {}
        tokens = [_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise PassingError("the response is not a whole chat completion") from error
    declined = finish == "content_filter" or bool(refusal)
    if declined and not isinstance(text, str):
        text = refusal if isinstance(refusal, str) else ""
    if text is None and finish == "length":
        text = ""  # all tokens went into reasoning
    if not isinstance(text, str):
        raise LostError("the chat completion holds no text")
    # Half a surrogate pair is valid JSON and cannot be stored.
    text = encodable(text)
    return Completion(text, finish, declined, tokens[0], tokens[1])


def _read_answer(body: bytes) -> Answer:
    """The judge's answer in a chat completion."""
    completion = read_completion(body)
    if completion.declined:
        raise BlockedError("the provider withheld the judge's answer")
    text = completion.text
    if completion.finish_reason == "length":
        # The cut may have fallen inside the last word, or before a second thought.
        text += "\n[cut off by max_tokens]"
    return Answer(text, completion.prompt_tokens, completion.completion_tokens)


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
