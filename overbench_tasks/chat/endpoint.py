"""Where a model is asked and how often, and the complete request it is sent.

The key comes from the environment alone; a URL that holds one is turned away.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, field_validator

from overbench_tasks.chat.client import Request
from overbench_tasks.chat.reply_cache import ChatError
from overbench_tasks.judge_settings import is_local, plain_url, sendable_key

OPENAI_URL: Final = "https://api.openai.com/v1"
URL_VARIABLE: Final = "OPENAI_BASE_URL"

Messages = list[dict[str, str]]


class EndpointSettings(BaseModel):
    """Where a model is asked, and how often. The key comes from the environment alone."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    model: str = Field("gpt-4o-mini", min_length=1, description="as the endpoint calls it")
    base_url: str | None = Field(
        None, description=f"of an OpenAI-compatible API, without key; default: {URL_VARIABLE} or OpenAI's"
    )
    api_key_variable: str = Field(
        "OPENAI_API_KEY",
        pattern=r"^[A-Z_][A-Z0-9_]*$",
        description="the environment variable that holds the key; its name, never the key",
    )
    concurrency: int = Field(16, ge=1, le=1024, description="most requests in flight at once")
    requests_per_minute: float | None = Field(None, gt=0, description="the endpoint's limit, if any")
    tokens_per_minute: float | None = Field(
        None, gt=0, description="the endpoint's limit, if any; each request counts its prompt and max_tokens"
    )
    timeout_sec: float = Field(120.0, gt=0, description="for one attempt, from sending to the last byte")
    attempts: int = Field(5, ge=1, le=20, description="for a request that fails in a way that may pass")
    backoff_sec: float = Field(0.5, ge=0, le=60, description="about the first wait; doubles each time")
    max_tokens: int = Field(256, ge=1, description="most tokens of a reply")
    extra_body: dict[str, JsonValue] = Field(
        default_factory=dict, description="more fields of each request; null removes a field"
    )

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, url: str | None) -> str | None:
        return None if url is None else plain_url(url)

    def url(self, environ: Mapping[str, str] | None = None) -> str:
        """The API's base URL.

        Raises:
            ChatError: the one in the environment is none, or holds a key.
        """
        if self.base_url is not None:
            return self.base_url
        environ = os.environ if environ is None else environ
        try:
            return plain_url(environ.get(URL_VARIABLE, "").strip() or OPENAI_URL)
        except ValueError as error:
            raise ChatError(f"{URL_VARIABLE} can't be used: {error}.") from error

    def key(self, environ: Mapping[str, str] | None = None) -> SecretStr | None:
        """The key, or None where there is none and a local endpoint needs none.

        Raises:
            ChatError: no key for a remote endpoint, or one that can't be sent.
        """
        environ = os.environ if environ is None else environ
        try:
            key = sendable_key(self.api_key_variable, environ)
        except ValueError as error:
            raise ChatError(str(error)) from error
        if key is None and not is_local(self.url(environ)):
            raise ChatError(
                f"The model {self.model} at {self.url(environ)} needs a key. Set {self.api_key_variable}, or "
                "point base_url at a local server such as http://localhost:8000/v1."
            )
        return key

    def request(self, messages: Messages, **fields: JsonValue) -> Request:
        """A complete request and its key in the cache: the SHA-256 of URL and body.

        Args:
            messages: the conversation.
            fields: of the body; ``extra_body`` goes over them.
        """
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "max_tokens": self.max_tokens,
            **fields,
            **self.extra_body,
        }
        data = json.dumps({name: value for name, value in body.items() if value is not None}, sort_keys=True)
        key = hashlib.sha256(f"{self.url()}/chat/completions\n{data}".encode()).hexdigest()
        return Request(key, data.encode())


def derived_seed(*parts: object) -> int:
    """A sampling seed in [0, 2^31) that is the same for the same parts, on every machine."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: four characters each, and five for the chat's frame.

    A tokenizer would be closer by some per cent, and would have to be fetched from the network.
    """
    return -(-len(text) // 4) + 5
