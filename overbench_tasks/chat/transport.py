"""One request to an OpenAI-compatible endpoint, through ``openai.AsyncOpenAI``, and what came of it."""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from overbench_tasks.chat.asking import PassingError
from overbench_tasks.chat.client import Request, failed_response, read_completion
from overbench_tasks.chat.endpoint import URL_VARIABLE, EndpointSettings
from overbench_tasks.chat.reply_cache import ChatError, Reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

logger = logging.getLogger(__name__)

NO_KEY: Final = "none"
"""What a server that needs no key is sent, since the SDK insists on one."""
_PROBE_TIMEOUT_SEC = 20.0


class Transport:
    """Sends one request once, through the SDK."""

    def __init__(self, settings: EndpointSettings, key: SecretStr | None) -> None:
        self._settings = settings
        self._key = key

    def open(self) -> AsyncOpenAI:
        """The connection, for an ``async with``; :meth:`attempt` works inside."""
        self._client = client(self._settings, self._key)
        return self._client

    async def attempt(self, request: Request) -> Reply:
        """The reply.

        Raises:
            PassingError, LostError, BlockedError, ClosedError: see :mod:`overbench_tasks.chat.asking`.
        """
        import openai

        body = json.loads(request.data)
        model, messages = body.pop("model"), body.pop("messages")
        sending = self._client.chat.completions.with_raw_response.create(
            model=model, messages=messages, extra_body=body
        )
        try:
            # The SDK's own limit is one for each read.
            response = await asyncio.wait_for(sending, self._settings.timeout_sec)
        except (asyncio.TimeoutError, openai.APITimeoutError) as error:
            raise PassingError(f"no answer within {self._settings.timeout_sec:g} s") from error
        except openai.APIStatusError as error:
            status, retry_after = error.status_code, error.response.headers.get("Retry-After")
            closed = _closed(self._settings)
            said = error.response.content
            raise failed_response(status, retry_after, said, closed=closed, key=self._key) from error
        except openai.APIConnectionError as error:
            raise PassingError(f"connection failed: {_cause(error)}") from error
        completion = read_completion(response.content)
        finish = "declined" if completion.declined else completion.finish_reason
        return Reply(completion.text, finish, completion.prompt_tokens, completion.completion_tokens)


def client(settings: EndpointSettings, key: SecretStr | None) -> AsyncOpenAI:
    """The SDK's client, without retries of its own; close it."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    loopback = (urlsplit(settings.url()).hostname or "") in ("localhost", "127.0.0.1", "::1")
    return AsyncOpenAI(
        api_key=key.get_secret_value() if key else NO_KEY,
        base_url=settings.url(),
        max_retries=0,
        timeout=settings.timeout_sec,
        # A redirect would carry the request to another host; a proxy does not lead to this machine.
        http_client=DefaultAsyncHttpxClient(follow_redirects=False, trust_env=not loopback),
    )


async def listed_models(settings: EndpointSettings) -> list[str] | None:
    """The models that the endpoint lists, None where it lists none.

    Raises:
        ChatError: nobody there, or nobody for us.
    """
    import openai

    key, url = settings.key(), settings.url()
    async with client(settings, key) as sdk:
        try:
            listing = sdk.models.with_raw_response.list()
            response = await asyncio.wait_for(listing, min(_PROBE_TIMEOUT_SEC, settings.timeout_sec))
        except (openai.APIConnectionError, asyncio.TimeoutError) as error:
            raise ChatError(
                f"No model server answers at {url} ({_cause(error)}). Start it, or correct base_url "
                f"or {URL_VARIABLE}."
            ) from error
        except openai.APIStatusError as error:
            if error.status_code in (401, 403):
                raise ChatError(f"{url}: {_closed(settings)[error.status_code]}.") from error
            return None
    try:
        return [str(model["id"]) for model in json.loads(response.content)["data"]] or None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None  # not OpenAI's format


def check_model(settings: EndpointSettings, listed: list[str] | None) -> None:
    """Whether the model is among those listed; a warning where none are.

    Raises:
        ChatError: it is not.
    """
    if listed is None:
        logger.warning(
            "%s does not list its models, so it is not known yet whether it has %r.",
            *(settings.url(), settings.model),
        )
        return
    if settings.model in listed or f"{settings.model}:latest" in listed:
        return
    near = difflib.get_close_matches(settings.model, listed, n=5, cutoff=0.3) or listed[:5]
    raise ChatError(
        f"{settings.url()} has no model {settings.model!r}. It lists {', '.join(near)}"
        f"{' and others' if len(listed) > len(near) else ''}. Set model to one of them."
    )


def _closed(settings: EndpointSettings) -> dict[int, str]:
    return {
        401: f"HTTP 401: the key was not accepted; check {settings.api_key_variable}",
        403: f"HTTP 403: the key in {settings.api_key_variable} may not use this model or endpoint",
        404: f"HTTP 404: no such model or endpoint; check model ({settings.model}) and base_url",
    }


def _cause(error: BaseException) -> str:
    """The name of what lies under the SDK's error; its text could hold anything."""
    return type(error.__cause__ or error).__name__
