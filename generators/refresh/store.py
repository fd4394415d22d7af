"""The run directory: every stage of a refresh reads it, writes to it, and resumes from it.

All rows live in one SQLite file, ``run.sqlite``. A row is written once and never changed: a stage is
finished for whatever has a row, so that killing the process at any moment loses at most what had not
come back yet, and nothing is asked twice. The other files of a run can be made again from it and
from ``settings.yaml``, the settings as used.

    RUN/settings.yaml            the settings as used, defaults written out
    RUN/run.sqlite               prompts, answers, attributions, jobs, candidates, votes
    RUN/adversary.sqlite         every paid answer of the adversary and the judges
    RUN/detector/round-N/        the detector of each round
    RUN/data/*.jsonl             what a run exports: see :mod:`generators.refresh.publish`
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from overbench_tasks.errors import OverbenchError
from overbench_tasks.text import encodable

RUN_FILE = "run.sqlite"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS prompts (
    id TEXT PRIMARY KEY, prompt TEXT NOT NULL, part TEXT NOT NULL, round INTEGER NOT NULL,
    position INTEGER NOT NULL, seed_id TEXT, feature TEXT, job_id TEXT);
CREATE TABLE IF NOT EXISTS answers (
    prompt_id TEXT, target TEXT, decoding TEXT, reply TEXT NOT NULL,
    PRIMARY KEY (prompt_id, target, decoding)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS labels (
    prompt_id TEXT, target TEXT, decoding TEXT, labeller TEXT,
    label TEXT NOT NULL, reason TEXT NOT NULL, label_by TEXT NOT NULL, blocked INTEGER NOT NULL,
    PRIMARY KEY (prompt_id, target, decoding, labeller)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attributions (
    prompt_id TEXT, round INTEGER, attribution TEXT NOT NULL, PRIMARY KEY (prompt_id, round)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, round INTEGER NOT NULL, wave INTEGER NOT NULL, position INTEGER NOT NULL,
    seed_id TEXT NOT NULL, feature TEXT NOT NULL, examples TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS written (
    job_id TEXT PRIMARY KEY, failure TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS candidates (
    job_id TEXT, number INTEGER, prompt_id TEXT NOT NULL, prompt TEXT NOT NULL, gate TEXT NOT NULL,
    reason TEXT NOT NULL, detail TEXT NOT NULL, refusal_probability REAL,
    PRIMARY KEY (job_id, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS votes (
    prompt_id TEXT PRIMARY KEY, votes TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS finished (
    round INTEGER, stage TEXT, summary TEXT NOT NULL, PRIMARY KEY (round, stage)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS candidates_by_prompt ON candidates (prompt_id);
"""

Row = Mapping[str, Any]


class RunInUseError(OverbenchError):
    """Another process works on the run directory."""


class StoreError(OverbenchError):
    """The run directory cannot be read or written."""


class Store:
    """One run directory, open for this process alone.

    Args:
        folder: the run directory; made if missing.
        read_only: look only, also while another process works on it.

    Raises:
        RunInUseError: another process has it open for writing.
        StoreError: it cannot be made, read or written.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.folder = folder
        self._lock: FileLock | None = None
        file = folder / RUN_FILE
        if read_only and not file.is_file():
            raise StoreError(
                f"Expected a run directory with {RUN_FILE} at {folder}, found none. Check the path."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not read_only:
                self._lock = _locked(folder)
            self._connection = sqlite3.connect(
                file, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode = WAL")
            # A killed process loses nothing; a power cut may lose the last moments, never the file.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            self._release()
            raise StoreError(_cannot_write(folder, error)) from error

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes inside, or none: also where the process is killed or the disk is full.

        Raises:
            StoreError: the rows cannot be written.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise StoreError(_cannot_write(self.folder, error)) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Append rows, all or none. A row whose key is there already is left as it was.

        Raises:
            StoreError: the rows cannot be written, for instance because the disk is full.
        """
        rows = list(rows)
        if not rows:
            return
        names = list(rows[0])
        marks = ", ".join(f":{name}" for name in names)
        query = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
        values = [{name: _storable(value) for name, value in row.items()} for row in rows]
        if self._connection.in_transaction:
            self._connection.executemany(query, values)
            return
        with self.transaction():
            self._connection.executemany(query, values)

    def rows(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """The rows of one SELECT.

        Raises:
            StoreError: the file cannot be read.
        """
        try:
            return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / RUN_FILE} cannot be read: {error}.") from error

    def value(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None."""
        rows = self.rows(query, parameters)
        return rows[0][0] if rows else None

    def fact(self, key: str) -> Any:
        """What :meth:`set_fact` keeps under ``key``, or None."""
        text = self.value("SELECT value FROM facts WHERE key = ?", [key])
        return None if text is None else json.loads(text)

    def set_fact(self, key: str, value: Any) -> None:
        """Keep a JSON value under ``key``; the first one stays."""
        self.add("facts", [{"key": key, "value": json.dumps(value, sort_keys=True)}])

    def summary(self, round_number: int, stage: str) -> dict[str, Any] | None:
        """What :meth:`finish` noted of a stage; None while it is unfinished."""
        query = "SELECT summary FROM finished WHERE round = ? AND stage = ?"
        text = self.value(query, [round_number, stage])
        return None if text is None else dict(json.loads(text))

    def finish(self, round_number: int, stage: str, summary: Mapping[str, Any]) -> None:
        """Note that a stage of a round is complete."""
        row = {"round": round_number, "stage": stage, "summary": json.dumps(summary)}
        self.add("finished", [row])


def _storable(value: Any) -> Any:
    """Text without lone surrogates, which are not Unicode text and which SQLite refuses."""
    return encodable(value) if isinstance(value, str) else value


def _locked(folder: Path) -> FileLock:
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RunInUseError(
            f"Another process works on {folder}. Wait for it or stop it; `overbench status` works meanwhile."
        ) from error
    return lock


def _cannot_write(folder: Path, error: Exception) -> str:
    return (
        f"The run directory {folder} cannot be written: {error}. What was there is safe. "
        "Make room or mend the rights, then start the same command again: it goes on from here."
    )
