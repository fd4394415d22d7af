"""Replies that DuckDB can't read by itself: of outcome tables, of logs line by line, and labelled anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from overbench.release.build import BATCH, Workspace, chunks
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.rules_labeller import label_by_rules
from overbench_tasks.outcomes.outcome_tables import EMPTY, OutcomeTable
from overbench_tasks.outcomes.reply_rows import ReplyRow, label_batch, read_replies
from overbench_tasks.records import Pair, Verdict
from overbench_tasks.review.workers import WORTH_A_POOL, in_order
from overbench_tasks.text import encodable, excerpt

LONGEST_QUOTE: Final = 600
"""Characters of a reply that are kept for a report."""

_CHUNK: Final = 2_000
"""Replies that one process labels at once."""

Reply = tuple[str, str, bool, str, str, str | None, str | None, bool]
"""Prompt, label, whether it was blocked, by whom and for what, the reason of the label, where it is wanted
the reply, and whether the prompt is unsafe: a row of the table."""


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
    query = "SELECT prompt, coalesce(reply, '') FROM records WHERE source = ? AND blocked_by IS NULL"
    for pairs in work.batches(query, [place]):
        _insert(work, _labelled(pairs))


def _sample_rows(file: Path) -> Iterator[Reply]:
    for row in read_replies(file):
        for reply, verdict in zip(row.replies, row.logged or (), strict=True):
            yield _reply(row.prompt, verdict, _is_unsafe(row), reply[:LONGEST_QUOTE])


def _relabelled(rows: Sequence[ReplyRow]) -> list[Reply]:
    found = zip(rows, label_batch(rows, label_by_rules), strict=True)
    return [_reply(row.prompt, verdict, _is_unsafe(row)) for row, verdicts in found for verdict in verdicts]


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
    told = (prompt or "", verdict.label, verdict.blocked, by_whom, for_what, verdict.reason, quote, unsafe)
    return tuple(encodable(one) if isinstance(one, str) else one for one in told)  # type: ignore[return-value]


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
        work.insert("INSERT INTO outcomes FROM new", pyarrow.table(columns, schema=schema))
