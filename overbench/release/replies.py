"""Replies of a log, a refresh run or an outcome table, as rows of the table ``replies``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from overbench.release.build import Workspace
from overbench.release.database import BATCH, chunks
from overbench.release.release_inputs import Log
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.rules_labeller import label_by_rules
from overbench_tasks.outcomes.outcome_tables import EMPTY, OutcomeTable
from overbench_tasks.outcomes.reply_rows import ReplyRow, label_batch, read_replies
from overbench_tasks.records import LABELS, PROVIDER, UNKNOWN_BLOCK, Pair, Verdict
from overbench_tasks.review.workers import WORTH_A_POOL, in_order
from overbench_tasks.text import encodable, excerpt, number_of

LONGEST_QUOTE: Final = 600
"""Characters of a reply that are kept for a report."""

REPLIES_TABLES: Final = """
-- Of the log or run in hand, one row per reply; the quote where it is wanted.
CREATE TABLE replies (
    prompt VARCHAR, label VARCHAR, blocked BOOLEAN, blocked_by VARCHAR, blocked_for VARCHAR, reason VARCHAR,
    quote VARCHAR, unsafe BOOLEAN);
-- Of the outcome tables: the same, with the place of the source and the model.
CREATE TABLE table_replies AS SELECT 0::SMALLINT AS source, '' AS model, * FROM replies;
"""

_CHUNK: Final = 2_000
"""Replies that one process labels at once."""
_LARGEST_LINE: Final = 1 << 28
_VERDICT_FIELDS: Final = ("$.label", "$.blocked", "$.reason", "$.by", "$.category")
"""What is read of a verdict."""
_UNSAFE: Final = "CASE coalesce(prompt_label, 'safe') WHEN 'safe' THEN false WHEN 'unsafe' THEN true END"
"""NULL where a log gives another side: the line is then read by itself, and its error names it."""

Reply = tuple[str, str, bool, str, str, str | None, str | None, bool]
"""Prompt, label, whether it was blocked, by whom and for what, the reason of the label, where it is wanted
the reply, and whether the prompt is unsafe: a row of the table."""


def read_log(work: Workspace, log: Log, *, quoting: bool) -> None:
    """All rows of a sample log; notes where there are fewer than its results file speaks of.

    Raises:
        OverbenchError: a line is cut off, no sample of ours, or of a contested prompt.
    """
    file, database = log.run.file, work.database
    if work.settings.relabel:
        _relabel_log(work, file)
    elif not _read_samples(work, log, quoting=quoting):
        database.connection.execute("TRUNCATE replies")
        _read_lines(work, file)
    replies = database.number("SELECT count(*) FROM replies")
    if log.run.expected and replies < log.run.expected:
        work.notes.append(
            f"{file.name} of {log.target.target} holds {number_of(replies, 'reply')} to the "
            f"{number_of(log.run.expected, 'prompt')} that its results file speaks of. Was it cut off, "
            "or run with --samples?"
        )


def _read_samples(work: Workspace, log: Log, *, quoting: bool) -> bool:
    """The rows of a sample log, read in parallel; whether that worked.

    DuckDB keeps two or three columns of it. Of the verdicts, which are JSON in a string, it parses what is
    wanted only. What it stumbles over is to be read line by line, which works or names the line.
    """
    import duckdb

    resps, reply, quote = "", "", "NULL"
    if quoting:
        resps, reply = ", resps: 'VARCHAR[][]'", ", unnest(flatten(resps)) AS reply"
        quote = f"reply[:{LONGEST_QUOTE}]"
    try:
        work.database.connection.execute(
            f"""
            INSERT INTO replies
            SELECT prompt, fields[1], coalesce(fields[2] = 'true', false),
                   if(starts_with(fields[4], '{PROVIDER}'), replace(fields[4], '{PROVIDER}', ''), ''),
                   coalesce(nullif(fields[5], ''), replace(fields[3], '{UNKNOWN_BLOCK}', '')),
                   fields[3], {quote}, {_UNSAFE} FROM (
                SELECT *, json_extract_string(verdict, {list(_VERDICT_FIELDS)}) AS fields FROM (
                SELECT doc.prompt AS prompt, doc.prompt_label AS prompt_label,
                       unnest(flatten(filtered_resps)) AS verdict {reply}
                FROM read_json(?, format = 'newline_delimited', maximum_object_size = {_LARGEST_LINE},
                    columns = {{doc: 'STRUCT(prompt VARCHAR, prompt_label VARCHAR)', filter: 'VARCHAR',
                               filtered_resps: 'VARCHAR[][]' {resps}}})
                WHERE filter = ?))""",
            [str(log.run.file), log.run.filter],
        )
        labels = ", ".join(f"'{label}'" for label in LABELS)
        return not work.database.number(
            f"""SELECT count(*) FROM replies
                WHERE prompt IS NULL OR unsafe IS NULL OR coalesce(label, '') NOT IN ({labels})"""
        )
    except duckdb.Error:
        return False


def _read_lines(work: Workspace, file: Path) -> None:
    """Of a sample log that DuckDB stumbles over, all rows; names the line that is none."""
    for rows in chunks(_sample_rows(file), BATCH):
        _insert(work, rows)


def _relabel_log(work: Workspace, file: Path) -> None:
    """Of a sample log, all rows with labels by today's rules."""
    processes = work.workers if file.stat().st_size > WORTH_A_POOL else 1
    for _, rows in in_order(_relabelled, chunks(read_replies(file), _CHUNK), processes):
        _insert(work, rows)


def read_run(work: Workspace, place: int) -> None:
    """The replies of a refresh run, by the place of its source; of what was withheld there is nothing to
    label anew."""
    if work.settings.relabel:
        _relabel_run(work, place)
    standing = "AND blocked_by IS NOT NULL" if work.settings.relabel else ""
    work.database.connection.execute(
        f"""INSERT INTO replies
            SELECT prompt, label, blocked_by IS NOT NULL, blocked_by, '', NULL, NULL, unsafe
            FROM records WHERE source = ? {standing}""",
        [place],
    )


def _relabel_run(work: Workspace, place: int) -> None:
    """Of a refresh run, the replies that are there, with labels by today's rules."""
    query = "SELECT prompt, coalesce(reply, '') FROM records WHERE source = ? AND blocked_by IS NULL"
    for pairs in work.database.batches(query, [place]):
        _insert(work, _labelled(pairs))


def _sample_rows(file: Path) -> Iterator[Reply]:
    for row in read_replies(file):
        for reply, verdict in zip(row.replies, row.logged or (), strict=True):
            yield _reply(row.prompt, verdict, _is_unsafe(row), reply[:LONGEST_QUOTE])


def _relabelled(rows: Sequence[ReplyRow]) -> list[Reply]:
    labelled = zip(rows, label_batch(rows, label_by_rules), strict=True)
    return [
        _reply(row.prompt, verdict, _is_unsafe(row)) for row, verdicts in labelled for verdict in verdicts
    ]


def _is_unsafe(row: ReplyRow) -> bool:
    """Whether a row's prompt should be declined. A contested prompt is on neither side of a release."""
    if row.prompt_label == "contested":
        raise OverbenchError(
            f"Expected safe and unsafe prompts in the logs, found contested: {excerpt(row.prompt or '')}. "
            "A release has no place for contested prompts. Leave their logs out."
        )
    return row.prompt_label == "unsafe"


def _labelled(pairs: Sequence[Pair]) -> list[Reply]:
    verdicts = label_by_rules(pairs)
    return [_reply(prompt, verdict) for (prompt, _), verdict in zip(pairs, verdicts, strict=True)]


def _reply(prompt: str | None, verdict: Verdict, unsafe: bool = False, quote: str | None = None) -> Reply:
    by_whom, for_what = (verdict.provider, verdict.blocked_for) if verdict.blocked else ("", "")
    row = (prompt or "", verdict.label, verdict.blocked, by_whom, for_what, verdict.reason, quote, unsafe)
    return tuple(encodable(value) if isinstance(value, str) else value for value in row)  # type: ignore[return-value]


def _insert(work: Workspace, rows: Sequence[Reply]) -> None:
    import pyarrow

    schema = work.database.connection.sql("FROM replies LIMIT 0").to_arrow_table().schema
    columns = dict(zip(schema.names, zip(*rows, strict=True), strict=True))
    work.database.insert("INSERT INTO replies FROM new", pyarrow.table(columns, schema=schema))


def read_table_of_target(work: Workspace, place: int, models: Sequence[str]) -> None:
    """Of an outcome table that was read, the rows of these models."""
    work.database.connection.execute(
        """INSERT INTO replies SELECT * EXCLUDE (source, model) FROM table_replies
           WHERE source = ? AND list_contains(?, model)""",
        [place, list(models)],
    )


def read_whole_table(work: Workspace, place: int, table: OutcomeTable) -> None:
    """All rows of an outcome table, for :func:`read_table_of_target` to take those of a target."""
    import pyarrow

    schema = work.database.connection.sql("FROM table_replies LIMIT 0").to_arrow_table().schema
    for batch in chunks(table.rows(), BATCH):
        rows = [
            (
                place,
                row.model,
                row.prompt,
                row.label,
                False,
                "",
                "",
                EMPTY,
                row.reply[:LONGEST_QUOTE] or None,
                False,
            )
            for _, row in batch
        ]
        columns = dict(zip(schema.names, zip(*rows, strict=True), strict=True))
        work.database.insert("INSERT INTO table_replies FROM new", pyarrow.table(columns, schema=schema))
