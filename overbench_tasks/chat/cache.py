"""Verdicts that were paid for, in one SQLite file that survives being killed.

``answers`` holds what a judge said, by the SHA-256 of the complete request; ``failures`` holds the
requests that earned no verdict, apart, for people to read: they are asked again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

BUSY_TIMEOUT_SEC: Final = 30.0
_KEYS_PER_QUERY = 500

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, text TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, answered_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, detail TEXT NOT NULL, text TEXT NOT NULL,
    failed_at TEXT NOT NULL
) WITHOUT ROWID;
"""


class Answer(NamedTuple):
    """What a judge said, word for word, and the tokens it cost."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class Failure(NamedTuple):
    """Why nothing was answered; ``detail`` is for people, and holds no key."""

    detail: str


def default_cache_file() -> Path:
    """``judge.sqlite3`` in ``$OVERBENCH_CACHE``, or else in the user's cache folder."""
    from platformdirs import user_cache_dir

    folder = os.environ.get("OVERBENCH_CACHE") or user_cache_dir("overbench", appauthor=False)
    return Path(folder).expanduser().absolute() / "judge.sqlite3"


class JudgeCache:
    """An open cache. Each write is a transaction of its own: what returned is on file.

    Several processes may use one file: readers never wait (write-ahead log), writers take turns.
    Of two answers to one request the last stays. Threads may share the object, and one may close it
    while another writes: closing waits for a write under way, and later ones raise.

    Raises:
        OSError, sqlite3.Error: from any method, where the file can't be used.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A connection that is closed in the middle of a statement takes the process along.
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            file, timeout=BUSY_TIMEOUT_SEC, isolation_level=None, check_same_thread=False
        )
        try:
            self._set_up()
        except sqlite3.Error:
            self._connection.close()
            raise

    def _set_up(self) -> None:
        deadline = time.monotonic() + BUSY_TIMEOUT_SEC
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                # A killed process loses nothing; a power cut may lose the last moments, never the file.
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.executescript(_SCHEMA)
                return
            except sqlite3.OperationalError as error:
                # While another process opens the file first or closes it last, SQLite does not wait.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    def __enter__(self) -> JudgeCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._connection.close()

    def answers(self, keys: Sequence[str]) -> Iterator[tuple[str, Answer]]:
        """The keys that have an answer, each with it, in no order."""
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            some = keys[start : start + _KEYS_PER_QUERY]
            marks = ", ".join("?" * len(some))
            query = f"SELECT key, text, prompt_tokens, completion_tokens FROM answers WHERE key IN ({marks})"  # noqa: S608
            with self._lock:
                rows = self._connection.execute(query, some).fetchall()
            for key, *answer in rows:
                yield key, Answer(*answer)

    def add_answer(self, key: str, model: str, answer: Answer) -> None:
        """Keep an answer that holds a verdict."""
        self._write("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", (key, model, *answer, _now()))

    def add_failure(self, key: str, model: str, detail: str, text: str = "") -> None:
        """Keep why a request has no verdict, and what was said instead, in place of its last failure."""
        self._write(
            "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", (key, model, detail, text, _now())
        )

    def _write(self, statement: str, values: Sequence[object]) -> None:
        with self._lock:
            self._connection.execute(statement, values)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
