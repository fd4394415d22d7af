"""The response matrix: verdicts of many runs joined into one label per prompt and target.

Works inside a DuckDB database with the tables of :func:`create_tables`, target by target, so that only
one target's verdicts are in hand at a time.

The rules of a cell:
- the label that most of its scored verdicts have; where two have equally many it is ``unscored``
- ``conflict`` where its scored verdicts differ
- no reply, no cell: a missing reply is nowhere counted as an answer
- an earlier release's verdicts count only where nothing given now speaks of the cell
  (:mod:`generators.release.verdict_table`)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from overbench_tasks.prompts import prompt_id
from overbench_tasks.records import LABELS

if TYPE_CHECKING:
    import duckdb
    import pyarrow

BATCH: Final = 50_000

_TABLES: Final = f"""
CREATE TYPE label AS ENUM ({", ".join(f"'{label}'" for label in LABELS)});
-- All ways in which a prompt is written, by prompt; number NULL: not one of ours.
CREATE TABLE spellings (prompt VARCHAR, number INTEGER);
-- Of the target in hand, one row per reply.
CREATE TABLE replies (prompt VARCHAR, label VARCHAR);
CREATE TABLE verdicts (number INTEGER, label label, replies INTEGER, conflict BOOLEAN);
CREATE TABLE cells (number INTEGER, target SMALLINT, label label, verdicts INTEGER, conflict BOOLEAN);
"""

_CELLS: Final = """
INSERT INTO cells
WITH counted AS (
    SELECT number, coalesce(bool_or(conflict), false) AS conflict, sum(replies) AS replies,
           coalesce(sum(replies) FILTER (label = 'complied'), 0) AS complied,
           coalesce(sum(replies) FILTER (label = 'refused'), 0) AS refused,
           coalesce(sum(replies) FILTER (label = 'partial'), 0) AS partial
    FROM verdicts WHERE number IS NOT NULL GROUP BY number)
SELECT number, ?,
       CASE WHEN complied > refused AND complied > partial THEN 'complied'
            WHEN refused > complied AND refused > partial THEN 'refused'
            WHEN partial > complied AND partial > refused THEN 'partial'
            ELSE 'unscored' END,
       replies, conflict OR (complied > 0)::INT + (refused > 0)::INT + (partial > 0)::INT > 1
FROM counted"""


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(_TABLES)


def add_spellings(connection: duckdb.DuckDBPyConnection) -> None:
    """Learn all spellings of the prompts from ``records`` and ``prompts``."""
    connection.execute(
        "INSERT INTO spellings SELECT DISTINCT records.prompt, number FROM records JOIN prompts USING (id)"
    )


def add_replies(connection: duckdb.DuckDBPyConnection) -> None:
    """Move ``replies`` to ``verdicts``."""
    _learn_new_spellings(connection)
    connection.execute("""
        INSERT INTO verdicts SELECT number, replies.label, count(*), false
        FROM replies JOIN spellings USING (prompt) GROUP BY ALL""")
    connection.execute("TRUNCATE replies")


def _learn_new_spellings(connection: duckdb.DuckDBPyConnection) -> None:
    """A log may write a prompt in another way than the sources do, or hold prompts of no source."""
    query = "SELECT DISTINCT prompt FROM replies ANTI JOIN spellings USING (prompt)"
    for rows in batches(connection, query):
        new = table({"prompt": rows, "id": [(prompt_id(prompt),) for (prompt,) in rows]})
        connection.register("new", new)
        connection.execute(
            "INSERT INTO spellings SELECT new.prompt, prompts.number FROM new LEFT JOIN prompts USING (id)"
        )
        connection.unregister("new")


def finish_target(connection: duckdb.DuckDBPyConnection, number: int) -> int:
    """Make the cells of a target from its ``verdicts``, which are gone afterwards.

    Returns:
        how many of its replies were to prompts that are not ours, and so in no cell.
    """
    connection.execute(_CELLS, [number])
    query = "SELECT coalesce(sum(replies), 0) FROM verdicts WHERE number IS NULL"
    [(others,)] = connection.execute(query).fetchall()
    connection.execute("TRUNCATE verdicts")
    return int(others)


def insert_replies(connection: duckdb.DuckDBPyConnection, rows: Sequence[tuple[str, str]]) -> None:
    """Add (prompt, label) rows to ``replies``."""
    if not rows:
        return
    prompts, labels = zip(*rows, strict=True)
    import pyarrow

    connection.register("new", pyarrow.table({"prompt": prompts, "label": labels}))
    connection.execute("INSERT INTO replies SELECT prompt, label FROM new")
    connection.unregister("new")


def table(columns: dict[str, list[tuple[Any, ...]]]) -> pyarrow.Table:
    import pyarrow

    return pyarrow.table({name: [value for (value,) in rows] for name, rows in columns.items()})


def batches(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Iterable[Any] = ()
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a query, :data:`BATCH` at a time; other queries may run between two of them."""
    cursor = connection.cursor().execute(query, list(parameters))
    while rows := cursor.fetchmany(BATCH):
        yield rows
