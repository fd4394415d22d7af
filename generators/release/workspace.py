"""A release in the making: what was given, and the database in which it is joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from generators.release import release_inputs as inputs
from generators.release import responses
from generators.release.decoding import Differences
from generators.release.release_settings import AggregateSettings, EngineSettings
from generators.targets import naming
from generators.targets.naming import TargetRecord
from overbench_tasks.errors import OverbenchError

if TYPE_CHECKING:
    import duckdb

    from generators.categories.category_judge import CategoryJudgeSettings

Say = Callable[[str], None]


@dataclass
class Workspace:
    """A release in the making.

    Attributes:
        connection: DuckDB with the tables records, prompts, spellings, cells and, at the end, kept.
        sources: what was given.
        logs: the sample logs.
        targets: those with a verdict, by name; their number is their place.
        labelled_by: who labelled all replies; None where there are none.
        decoding: in what the replies of one target differ (:mod:`generators.release.decoding`).
        category_judge: who files prompts that come without a category; None: the keywords.
        workers: processes that label replies anew.
        counts: of every step.
        notes: for people.
    """

    connection: duckdb.DuckDBPyConnection
    settings: AggregateSettings
    sources: list[inputs.Source]
    logs: list[responses.Log]
    aliases: naming.Aliases
    targets: dict[str, TargetRecord]
    labelled_by: str | None
    decoding: Differences = field(default_factory=dict)
    category_judge: CategoryJudgeSettings | None = None
    workers: int = 1
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def one(self, query: str) -> int:
        """The one number that a query gives."""
        return int(self.connection.execute(query).fetchall()[0][0])


def open_database(folder: Path, engine: EngineSettings) -> duckdb.DuckDBPyConnection:
    import duckdb

    # In memory, so that nothing is logged; what exceeds the limit is spilled all the same.
    connection = duckdb.connect()
    try:
        connection.execute("SET memory_limit = ?", [engine.memory_limit])
    except duckdb.Error as error:
        connection.close()
        raise OverbenchError(f"--memory_limit: expected a size such as 2GB: {error}") from error
    connection.execute("SET temp_directory = ?", [str(folder / "spilled")])
    connection.execute("SET preserve_insertion_order = false")  # results are sorted where it matters
    connection.execute("SET enable_progress_bar = false")
    if engine.threads:
        connection.execute("SET threads = ?", [engine.threads])
    return connection
