"""A SQLite file in a folder that one process at a time writes to; rows are written once.

:mod:`generators.refresh.store` defines the tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from overbench_tasks.errors import OverbenchError
from overbench_tasks.text import encodable

RUN_FILE = "run.sqlite"


class RunFile:
    """One run directory, open for this process alone.

    Every method raises :class:`OverbenchError` where the file cannot be read or written. A new row whose key
    is in the table already is dropped.

    Args:
        folder: the run directory; made if missing.
        schema: SQL that makes the tables where they are missing.
        read_only: read only, which also works while another process writes.

    Raises:
        OverbenchError: another process has it open for writing; it cannot be made, read or written.
    """

    def __init__(self, folder: Path, schema: str, *, read_only: bool = False) -> None:
        self.folder = folder
        self._lock = FileLock(folder / ".lock")
        file = folder / RUN_FILE
        if read_only and not file.is_file():
            raise OverbenchError(
                f"Expected a run directory with {RUN_FILE} at {folder}, found none. Check the path."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not read_only:
                self._lock.acquire(timeout=0)
            self._connection = sqlite3.connect(
                file, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode = WAL")
            # A killed process loses nothing; a power cut may lose the last moments, never the file.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(schema)
        except Timeout as error:
            raise OverbenchError(
                f"Another process works on {folder}. Wait for it or stop it; "
                "`overbench status` works meanwhile."
            ) from error
        except (OSError, sqlite3.Error) as error:
            self._lock.release()
            raise OverbenchError(_cannot_write(folder, error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._lock.release()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Either all writes inside are made or none, even where the process is killed or the disk is full."""
        if self._connection.in_transaction:
            yield
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:  # which commits, or rolls back
                yield
        except sqlite3.Error as error:
            raise OverbenchError(_cannot_write(self.folder, error)) from error

    def _add(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows, all or none."""
        rows = list(rows)
        if not rows:
            return
        names = list(rows[0])
        marks = ", ".join(f":{name}" for name in names)
        query = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
        # SQLite refuses lone surrogates, which are no Unicode text.
        values = [{n: encodable(v) if isinstance(v, str) else v for n, v in row.items()} for row in rows]
        with self.transaction():
            self._connection.executemany(query, values)

    def _rows(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """The rows, whose columns are read by number or by name."""
        try:
            return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise OverbenchError(f"{self.folder / RUN_FILE} cannot be read: {error}.") from error

    def _count(self, table_and_condition: str, parameters: Sequence[Any] = ()) -> int:
        query = f"SELECT COUNT(*) FROM {table_and_condition}"  # noqa: S608
        return int(self._rows(query, parameters)[0][0])


def _cannot_write(folder: Path, error: Exception) -> str:
    return (
        f"The run directory {folder} cannot be written: {error}. What was there is safe. "
        "Make room or mend the rights, then start the same command again: it goes on from here."
    )
