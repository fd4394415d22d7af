"""What a judge needs to know, checked before anything is generated or paid for.

A setting comes from the task file (the filter's arguments) or else from the environment:
``OVERBENCH_JUDGE_`` and its name in capitals. What a task file fixes, the environment doesn't change.
The key comes from the environment alone, because lm-eval writes task files into its results.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, ValidationError, field_validator

from overbench_tasks.errors import OverbenchError

ENV_PREFIX = "OVERBENCH_JUDGE_"
KEY_VARIABLES = ("OVERBENCH_JUDGE_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for; the first that is set wins."""

Mode = Literal["two-stage", "judge"]


class JudgeSettingsError(OverbenchError):
    """The judge cannot be used as set; the message says what was found and what to do.

    It never holds a value that was given, since that could be a key in the wrong place.
    """


class JudgeSettings(BaseModel):
    """Everything about a judge but its key. The field descriptions are the documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    mode: Mode = Field("two-stage", description="two-stage: rules first, then the judge; judge: no rules")
    model: str = Field("gpt-4o-mini", min_length=1, description="as the endpoint calls it")
    base_url: str = Field("https://api.openai.com/v1", description="of an OpenAI-compatible API, without key")
    concurrency: int = Field(16, ge=1, le=1024, description="most requests in flight at once")
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(64, ge=1, description="for the judge's answer; more for one that reasons first")
    timeout_sec: float = Field(60.0, gt=0, description="for one attempt, from connecting to the last byte")
    max_retries: int = Field(4, ge=0, le=20, description="further attempts after one that may pass")
    backoff_sec: float = Field(0.5, ge=0, le=60, description="about the first wait; doubles each time")
    max_chars: int = Field(6000, ge=300, description="longer prompts and replies keep head and tail only")
    prompt_file: Path | None = Field(None, description="a Jinja template in place of prompts/judge.jinja")
    extra_body: dict[str, JsonValue] = Field(
        default_factory=dict, description="more fields of each request, JSON; null removes a field"
    )

    @classmethod
    def resolve(
        cls, arguments: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
    ) -> JudgeSettings:
        """The settings of ``arguments``, completed from ``environ`` (default: the process's).

        Raises:
            JudgeSettingsError: an unknown name or a value that cannot be.
        """
        environ = os.environ if environ is None else environ
        found = {
            name.removeprefix(ENV_PREFIX).lower(): value
            for name, value in environ.items()
            if name.startswith(ENV_PREFIX) and name not in KEY_VARIABLES and value.strip()
        }
        try:
            return cls.model_validate({**found, **(arguments or {})})
        except ValidationError as error:
            problems = "; ".join(_problem(str(e["loc"][0]), e["type"], e["msg"]) for e in error.errors())
            raise JudgeSettingsError(f"The judge's settings can't be used. {problems}.") from None

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        return plain_url(url)

    @field_validator("extra_body", mode="before")
    @classmethod
    def _json_from_environment(cls, value: object) -> object:
        return json.loads(value) if isinstance(value, str) else value

    @property
    def url(self) -> str:
        """Where requests go."""
        return f"{self.base_url}/chat/completions"

    @property
    def is_local(self) -> bool:
        """Whether the endpoint is on this machine or its private network, where no key is needed."""
        return is_local(self.base_url)


def plain_url(url: str) -> str:
    """``url`` of an API without its last slash and ``/chat/completions``.

    Raises:
        ValueError: it is no http(s) URL, or holds more than host, port and path, such as a key.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("expected a URL such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("expected a URL without user, password, query or fragment")
    return url.rstrip("/").removesuffix("/chat/completions")


def is_local(url: str) -> bool:
    """Whether ``url`` is on this machine or its private network, where no key is needed."""
    host = urlsplit(url).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal"))


def sendable_key(name: str, environ: Mapping[str, str]) -> SecretStr | None:
    """The key in the environment variable ``name``, or None where it is not set.

    Raises:
        ValueError: it can't be sent in a header.
    """
    key = environ.get(name, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(
            f"{name} holds a space, a line break or a letter outside ASCII, which no key does. Set it again."
        )
    return SecretStr(key) if key else None


def _problem(name: str, kind: str, message: str) -> str:
    if kind != "extra_forbidden":
        variable = f"{ENV_PREFIX}{name.upper()}"
        return f"{name} (in the task file or {variable}): {message.removeprefix('Value error, ')}"
    if "key" in name or "token" in name:
        return f"{name}: a key is read from the environment only; set {' or '.join(KEY_VARIABLES)}"
    return f"{name}: no such setting; there are {', '.join(JudgeSettings.model_fields)}"


def api_key(settings: JudgeSettings, environ: Mapping[str, str] | None = None) -> SecretStr | None:
    """The key from the environment, or None where there is none and a local endpoint needs none.

    Raises:
        JudgeSettingsError: no key for a remote endpoint, or one that can't be sent in a header.
    """
    environ = os.environ if environ is None else environ
    try:
        key = next((key for name in KEY_VARIABLES if (key := sendable_key(name, environ))), None)
    except ValueError as error:
        raise JudgeSettingsError(str(error)) from error
    if key is None and not settings.is_local:
        raise JudgeSettingsError(
            f"The judge {settings.model} at {settings.base_url} needs a key. Set "
            f"{' or '.join(KEY_VARIABLES)}, or point {ENV_PREFIX}BASE_URL at a local server such as http://localhost:8000/v1."
        )
    return key
