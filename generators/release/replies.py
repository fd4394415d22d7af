"""Replies that DuckDB can't read by itself: of outcome tables, of logs line by line, and labelled anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from generators.release.build import BATCH, Workspace, chunks
from generators.release.outcomes import EMPTY, OutcomeTable
from overbench_tasks.labellers import label_by_rules
from overbench_tasks.records import Pair
from overbench_tasks.reply_rows import ReplyRow, label_batch, read_replies
from overbench_tasks.review.workers import WORTH_A_POOL, in_order
from overbench_tasks.text import encodable

LONGEST_QUOTE: Final = 600
"""Characters of a reply that are kept for a report."""

_CHUNK: Final = 2_000
"""Replies that one process labels at once."""

Reply = tuple[str, str, bool, str | None, str | None, bool]
"""Prompt, label, whether it was blocked, the reason of the label, where it is wanted the reply, and whether
the prompt is unsafe: a row of the table."""


def read_lines(work: Workspace, file: Path) -> None:
    """Of a sample log that DuckDB stumbles over, all rows; names the line that is none."""
    for rows in chunks(_sample_rows(file), BATCH):
        _insert(work, rows)


def relabel_log(work: Workspace, file: Path) -> None:
    """Of a sample log, all rows with labels by today's rules."""
    processes = work.workers if file.stat().st_size > WORTH_A_POOL else 1
    for _, rows in in_order(_relabelled, chunks(read_replies(file), _CHUNK), processes):
        _insert(work, rows)


def relabel_run(work: Workspace, place: int) -> None:
    """Of a refresh run, the replies that are there, with labels by today's rules."""
    query = "SELECT prompt, coalesce(reply, '') FROM records WHERE source = ? AND NOT blocked"
    for pairs in work.batches(query, [place]):
        _insert(work, _labelled(pairs))


def _sample_rows(file: Path) -> Iterator[Reply]:
    for row in read_replies(file):
        for reply, verdict in zip(row.replies, row.logged or (), strict=True):
            prompt, reason = encodable(row.prompt or ""), encodable(verdict.reason)
            quote, unsafe = encodable(reply[:LONGEST_QUOTE]), row.prompt_label == "unsafe"
            yield prompt, verdict.label, verdict.blocked, reason, quote, unsafe


def _relabelled(rows: Sequence[ReplyRow]) -> list[Reply]:
    found = zip(rows, label_batch(rows, label_by_rules), strict=True)
    return [
        (row.prompt or "", verdict.label, verdict.blocked, verdict.reason, None, row.prompt_label == "unsafe")
        for row, verdicts in found
        for verdict in verdicts
    ]


def _labelled(pairs: Sequence[Pair]) -> list[Reply]:
    verdicts = label_by_rules(pairs)
    found = zip(pairs, verdicts, strict=True)
    return [
        (prompt or "", verdict.label, verdict.blocked, verdict.reason, None, False)
        for (prompt, _), verdict in found
    ]


def _insert(work: Workspace, rows: Sequence[Reply]) -> None:
    import pyarrow

    schema = work.connection.sql("FROM replies LIMIT 0").to_arrow_table().schema
    columns = dict(zip(schema.names, zip(*rows, strict=True), strict=True))
    work.insert("INSERT INTO replies FROM new", pyarrow.table(columns, schema=schema))


def read_outcomes(work: Workspace, place: int, table: OutcomeTable) -> None:
    """All rows of a table into ``outcomes``, for each target to take its own."""
    import pyarrow

    schema = work.connection.sql("FROM outcomes LIMIT 0").to_arrow_table().schema
    for batch in chunks(table.rows(), BATCH):
        rows = [
            (place, row.model, row.prompt, row.label, False, EMPTY, row.reply[:LONGEST_QUOTE] or None, False)
            for _, row in batch
        ]
        columns = dict(zip(schema.names, zip(*rows, strict=True), strict=True))
        work.insert("INSERT INTO outcomes FROM new", pyarrow.table(columns, schema=schema))
