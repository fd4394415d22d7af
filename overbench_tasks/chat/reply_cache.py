"""Replies that were paid for, in one SQLite file, keyed by the complete request.

The judge's cache (:mod:`overbench_tasks.chat.cache`) with the finish reason kept beside the text, since
a reply that was cut off is read differently. Every reply that arrived is kept, usable or not: asking
again would cost again and make a resumed run differ from an undisturbed one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from overbench_tasks.chat.cache import Answer, Failure, JudgeCache
from overbench_tasks.errors import OverbenchError


class ChatError(OverbenchError):
    """An endpoint or its settings cannot be used. The message says what to do, and holds no key."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said, word for word.

    Attributes:
        finish_reason: the API's word: ``stop``, ``length``, ...; ``declined`` where the API marked the
            reply as a refusal or withheld it; ``""`` where it is not known.
        prompt_tokens: 0 where the API did not say; likewise ``completion_tokens``.
        cached: it was there before, or an equal request of the same call paid for it.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cached: bool = False


class ChatCache:
    """An open cache; see :func:`open_cache`. Every method raises ChatError where the file fails."""

    def __init__(self, cache: JudgeCache, file: Path, model: str) -> None:
        self._cache = cache
        self._file = file
        self._model = model

    def replies(self, keys: list[str]) -> dict[str, Reply]:
        """The replies on file, by key."""
        with _explained(self._file):
            read = {key: _read(answer) for key, answer in self._cache.answers(keys)}
        return {key: reply for key, reply in read.items() if reply is not None}

    def add(self, key: str, reply: Reply) -> None:
        """Keep a reply; it is on file when this returns."""
        text = json.dumps({"finish_reason": reply.finish_reason, "text": reply.text})
        answer = Answer(text, reply.prompt_tokens, reply.completion_tokens)
        with _explained(self._file):
            self._cache.add_answer(key, self._model, answer)

    def add_failure(self, key: str, failure: Failure) -> None:
        """Keep why there is no reply, apart from the replies; the request will be sent again."""
        with _explained(self._file):
            self._cache.add_failure(key, self._model, failure.detail)


@contextmanager
def open_cache(file: Path, model: str) -> Iterator[ChatCache]:
    """The cache in ``file`` for the length of a ``with`` block.

    Args:
        file: made where it is missing, with its folder.
        model: written beside each reply, for people.

    Raises:
        ChatError: the file can't be used, at the start or later (a full disk): nothing more should be
            paid for.
    """
    with _explained(file):
        cache = JudgeCache(file)
    with cache:
        yield ChatCache(cache, file, model)


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise ChatError(
            f"Replies can't be kept in {file}: {error}. Expected a SQLite file in a folder that can be "
            "written, with room on the disk. What arrived before is kept; mend this and run again."
        ) from error


def _read(answer: Answer) -> Reply | None:
    """None where the row was not written by :meth:`ChatCache.add`."""
    try:
        kept = json.loads(answer.text)
        text, finish_reason = kept["text"], kept["finish_reason"]
    except (ValueError, LookupError, TypeError):
        return None
    return Reply(text, finish_reason, answer.prompt_tokens, answer.completion_tokens, cached=True)
