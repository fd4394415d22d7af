"""lm-eval's chat types for providers' APIs, which keep what a provider says of a reply it withheld.

Arguments, payloads, concurrency and the number of attempts are lm-eval's own: each class is one of its
classes with another way to send one request. That gives exactly one
:class:`~overbench_tasks.providers.model_reply.ModelReply` per prompt and never an exception:

- a block, by :data:`~overbench_tasks.chat.provider_shapes.SHAPES`, is a reply, and not asked again
- what may pass (HTTP 408, 409, 425, 429, 5xx, a broken connection, no completion) is tried again
- a request that fails for good is a failed reply, which the next run with ``--use_cache`` asks again

Where nothing but failures comes, the run ends with what the endpoint said: early, where it turns requests
away for a key or a model.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import logging
import os
import re
import time
from collections import Counter
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import requests
from lm_eval.models.anthropic_llms import AnthropicChat
from lm_eval.models.openai_completions import LocalChatCompletion, OpenAIChatCompletion

from overbench_tasks.chat.provider_shapes import CUT
from overbench_tasks.chat.response import AttemptError, failed_response, is_secret
from overbench_tasks.errors import OverbenchError
from overbench_tasks.providers.model_reply import ModelReply, read_response
from overbench_tasks.text import number_of

# Below lm-eval's own logger, whose INFO lines a run of lm-eval shows.
_eval_logger = logging.getLogger("lm_eval.overbench")

TURNED_AWAY: Final = 5
"""So many requests turned away (HTTP 401, 404, no credit) before any reply: none will be taken."""
PATIENCE: Final = 32
"""So many failures before any reply, or two for each place in flight: nothing works."""
MAX_WAIT_SEC: Final = 60.0
"""Of what an endpoint asks for before the next attempt."""

_SECRET = re.compile("auth|key|token|secret", re.IGNORECASE)


class KeepsBlocks:
    """What the three types share; stands before lm-eval's class."""

    key_variable = "OPENAI_API_KEY"
    api_key: str
    base_url: str
    model: str
    timeout: int
    verify_certificate: bool
    cache_hook: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answered = 0
        """Requests that brought a reply, by this object."""
        self.kept = False
        """lm-eval's cache holds replies: a run that goes on may have only those left that fail."""
        self.failures: Counter[str] = Counter()
        self.turned_away = 0
        self.stopped = False
        self.begun: Counter[int] = Counter()
        """How often each request was begun in a call of :meth:`generate_until`."""
        self.repeats = 1
        """The most that a task of that call asks for."""

    @cached_property
    def header(self) -> dict[str, str]:
        """lm-eval's, and Azure's where Azure is asked and no other was given."""
        host = urlsplit(self.base_url).hostname or ""
        if host.endswith(".azure.com") and not getattr(self, "_header", None):
            return {"api-key": os.environ.get("AZURE_OPENAI_API_KEY") or self.api_key}
        return dict(super().header)  # type: ignore[misc]

    @cached_property
    def keys(self) -> list[bytes]:
        """What no output may hold, though an endpoint repeats it."""
        named = [str(value) for name, value in self.header.items() if _SECRET.search(name)]
        found = [value.rpartition(" ")[2] for value in named]
        return [key.encode() for key in found if is_secret(key)]

    @property
    def url(self) -> str:
        """``base_url`` as messages show it, without what may be a key."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"

    def set_cache_hook(self, cache_hook: Any) -> None:
        """Failures in lm-eval's cache are no answers: they are asked again."""
        super().set_cache_hook(cache_hook)  # type: ignore[misc]
        kept = cache_hook.dbdict
        if kept is not None:
            failed = [key for key, one in kept.items() if isinstance(one, ModelReply) and one.failure]
            for key in failed:
                del kept[key]
            self.kept = len(kept) > 0

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[ModelReply]:
        """One reply per request, in order.

        Raises:
            OverbenchError: nothing but failures came.
            ValueError: lm-eval's, of a missing key.
        """
        self.header  # noqa: B018 (a missing key is said before anything is asked)
        self.begun.clear()
        self.repeats = max((request.repeats or 1 for request in requests), default=1)
        replies: list[ModelReply] = super().generate_until(requests, disable_tqdm)  # type: ignore[misc]
        strange = Counter(
            one.withheld.reason for one in replies if one.withheld and one.withheld.provider == "unknown"
        )
        if strange:
            _eval_logger.warning(
                "%s withheld in words that no known provider has: %s. Counted as refused, blocked: unknown; "
                "look at some, and report the words.",
                number_of(strange.total(), "reply was", "replies were"),
                ", ".join(f"{word!r} ({n}x)" for word, n in strange.most_common(5)),
            )
        failed = sum(bool(reply.failure) for reply in replies)
        if not failed:
            return replies
        said = "; ".join(f"{text} ({count}x)" for text, count in self.failures.most_common(3))
        if self.stopped or not (self.answered or self.kept):
            raise OverbenchError(
                f"{self.model} at {self.url} answered none of {failed:,} requests: {said}. Nothing was "
                "scored. Correct that, and run the same command again."
            )
        _eval_logger.warning(
            "%s of %s requests to %s failed for good and stay unscored (request_failed): %s. With "
            "--use_cache the same command asks for these alone.",
            f"{failed:,}",
            f"{len(replies):,}",
            self.model,
            said,
        )
        return replies

    def model_call(self, messages: Any, *, gen_kwargs: dict[str, Any] | None = None, **_: Any) -> ModelReply:
        """lm-eval's way for one request at a time. Raises nothing but KeyboardInterrupt."""
        asking = Attempts(self, messages, gen_kwargs)
        while not asking.over():
            time.sleep(asking.wait_sec)
            try:
                got = requests.post(
                    self.base_url, verify=self.verify_certificate, timeout=self.timeout, **asking.sent
                )
                asking.receive(got.status_code, got.content, got.headers.get("Retry-After"))
            except (requests.RequestException, OSError) as error:
                asking.break_off(error)
        return asking.reply

    async def amodel_call(
        self,
        session: aiohttp.ClientSession,
        sem: asyncio.Semaphore,
        messages: Any,
        *,
        cache_keys: list[Any] | None = None,
        gen_kwargs: dict[str, Any] | None = None,
        **_: Any,
    ) -> list[ModelReply]:
        """lm-eval's way for many at once: a list of one reply. Raises nothing but what cancels it."""
        asking = Attempts(self, messages, gen_kwargs)
        # Kept while it waits, so that an endpoint which can't keep up is asked for less.
        async with sem:
            while not asking.over():
                await asyncio.sleep(asking.wait_sec)
                try:
                    async with session.post(self.base_url, **asking.sent) as got:
                        asking.receive(got.status, await got.read(), got.headers.get("Retry-After"))
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    asking.break_off(error)
        if cache_keys and not asking.reply.failure:
            self.cache_hook.add_partial("generate_until", cache_keys[0], asking.reply)
        return [asking.reply]

    def parse_generations(self, outputs: ModelReply, **_: Any) -> list[ModelReply]:
        """Of what :meth:`model_call` returns."""
        return [outputs]

    def has_failed(self, error: AttemptError) -> None:
        """Count a request that failed for good, and stop where all will."""
        self.failures[str(error)] += 1
        self.turned_away += error.outlook == "closed"
        hopeless = not self.kept and self.failures.total() >= max(PATIENCE, 2 * self._concurrent)  # type: ignore[attr-defined]
        if not self.answered and (self.turned_away >= TURNED_AWAY or hopeless):
            self.stopped = True


def seed_of(seed: int, messages: str) -> int:
    """A seed of 31 bits for these messages alone, the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{seed} {messages}".encode()).digest()[:4], "big") >> 1


class Attempts:
    """One request until its reply, over as many attempts as lm-eval would make.

    Attributes:
        sent: body and headers, as both of lm-eval's HTTP clients take them.
        reply: what came of it, once it is over.
        wait_sec: before the next attempt.
    """

    def __init__(self, lm: Any, messages: Any, gen_kwargs: dict[str, Any] | None) -> None:
        self._lm = lm
        self._attempts = 0
        self._ended = False
        self.reply = ModelReply(failure="not asked, since no request was answered")
        self.wait_sec = 0.0
        # lm-eval sends one seed with every request. A server that heeds it gives all repeats one reply, and
        # all prompts the same random numbers, so that a rate of sampled replies hangs on a single draw.
        # Tasks that share a prompt share its seeds, so that it doesn't matter which are asked together.
        request = hash((str(messages), str(gen_kwargs)))
        seed = lm._seed + lm.begun[request] % lm.repeats
        lm.begun[request] += 1
        message = lm.create_message(messages)
        # It takes what it uses out of the settings, which all requests share.
        settings = {"gen_kwargs": copy.deepcopy(gen_kwargs), "seed": seed_of(seed, str(message))}
        if lm._eos_string:
            settings["eos"] = lm._eos_string
        payload = lm._create_payload(message, generate=True, **settings)
        self.sent = {"json": payload, "headers": lm.header}

    def over(self) -> bool:
        return self._ended or self._lm.stopped

    def receive(self, status: int, body: bytes, retry_after: str | None) -> None:
        """Take a response."""
        for key in self._lm.keys:
            body = body.replace(key, b"***")
        try:
            reply = read_response(status, body)
            if reply is None:
                raise failed_response(status, body, retry_after=retry_after, closed=self._closed(body))
        except AttemptError as error:
            self._fail(error)
            return
        self._lm.answered += 1
        self.reply, self._ended = self._answer(reply), True

    def break_off(self, error: Exception) -> None:
        """Take it that no response came."""
        self._fail(AttemptError(f"connection failed: {type(error).__name__}", "passing"))

    def _fail(self, error: AttemptError) -> None:
        self._attempts += 1
        if error.outlook == "passing" and self._attempts < self._lm.max_retries:
            # As tenacity waits for lm-eval, and as long as the endpoint asks.
            backoff = min(0.5 * 2 ** (self._attempts - 1), 10.0)
            self.wait_sec = max(1.0, backoff, min(error.wait_sec, MAX_WAIT_SEC))
            return
        self._lm.has_failed(error)
        self.reply, self._ended = ModelReply(failure=f"{error} (attempts: {self._attempts})"), True

    def _closed(self, body: bytes) -> dict[int, str]:
        lm = self._lm
        missing = f"no model {lm.model!r}; check model"
        if lm.model.encode() not in body:
            missing = f"nothing there, or no model {lm.model!r}; check base_url and model"
        return {
            401: f"HTTP 401: the key was not accepted; check {lm.key_variable}",
            404: f"HTTP 404: {missing}",
        }

    def _answer(self, reply: ModelReply) -> ModelReply:
        """Without reasoning, where lm-eval was told how that ends."""
        end = getattr(self._lm, "think_end_token", None)
        if not end or reply.withheld:
            return reply
        _, found, answer = reply.rpartition(end)
        if not found and (reply.finish_reason or "").lower() in CUT:
            answer = ""  # the limit was reached before the reasoning's end
        return ModelReply(answer.lstrip() if found else answer, finish_reason=reply.finish_reason)


class OverbenchOpenAI(KeepsBlocks, OpenAIChatCompletion):
    """``--model overbench-openai``: lm-eval's ``openai-chat-completions``."""


class OverbenchLocalChat(KeepsBlocks, LocalChatCompletion):
    """``--model overbench-local-chat``: lm-eval's ``local-chat-completions``."""


class OverbenchAnthropic(KeepsBlocks, AnthropicChat):
    """``--model overbench-anthropic``: lm-eval's ``anthropic-chat``."""

    key_variable = "ANTHROPIC_API_KEY"
