"""The response matrix: verdicts of logs, runs and releases, joined into one cell per prompt and target.

Works target by target, so that only one target's verdicts are in hand at a time. The rules of a cell:
- its share of refusals is (refused verdicts / scored verdicts), what all rates are made of
- its label is the one that most of its scored verdicts have; of labels with equally many, the one that gives
  the least: ``refused``, ``partial``, ``evasive``, ``complied``
- ``conflict`` where its scored verdicts differ
- no reply, no cell: a missing reply is nowhere counted as an answer
- the verdicts of logs and runs given now replace those of all earlier releases, else those of the first
  release given that holds the cell count. An earlier release may be made of the very logs that are given
  again, which its cells no longer tell. So no verdict is counted twice, and a target asked anew has its
  new label, be it unscored. Where an earlier release stands (``Workspace.earlier_stands``, for a report) it
  is the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from generators.release.build import BATCH, Say, Workspace, chunks
from generators.release.read import COUNT_COLUMNS, MATRIX_FILE
from generators.release.release_inputs import Log, PromptSource
from overbench_tasks.labellers import label_by_rules
from overbench_tasks.prompts import prompt_id
from overbench_tasks.records import LABELS, Pair
from overbench_tasks.reply_rows import ReplyRow, label_batch, read_replies
from overbench_tasks.review.workers import WORTH_A_POOL, in_order
from overbench_tasks.text import encodable

LONGEST_QUOTE: Final = 600
"""Characters of a reply that are kept for a report."""

_LARGEST_LINE: Final = 1 << 28
_CHUNK: Final = 2_000
"""Replies that one process labels at once."""

Reply = tuple[str, str, bool, str | None, str | None]
"""Prompt, label, whether it was blocked, and where they are wanted the reason of the label and the reply."""

_SCORED: Final = ("refused", "partial", "evasive", "complied")
"""In the order in which they give a cell its label where equally many verdicts have each."""

_TABLES: Final = f"""
CREATE TYPE label AS ENUM ({", ".join(f"'{label}'" for label in LABELS)});
-- All ways in which a prompt is written, by prompt; number NULL: not one of ours.
CREATE TABLE spellings AS SELECT DISTINCT records.prompt, number FROM records JOIN prompts USING (id);
-- Of the log or run in hand, one row per reply; reason and quote where they are wanted.
CREATE TABLE replies (prompt VARCHAR, label VARCHAR, blocked BOOLEAN, reason VARCHAR, quote VARCHAR);
-- Of the target in hand: those just read, and those that count.
CREATE TABLE read_now (number INTEGER, label label, replies INTEGER, blocked INTEGER, conflict BOOLEAN);
CREATE TABLE verdicts AS FROM read_now;
CREATE TABLE cells (
    number INTEGER, target SMALLINT, label label, verdicts INTEGER, conflict BOOLEAN, share FLOAT);
-- How many verdicts have each label, of the cells that label and number of verdicts don't tell it of.
CREATE TABLE mixed (
    number INTEGER, target SMALLINT, {", ".join(f"{name} INTEGER" for name in COUNT_COLUMNS)});
-- For a report: a refused reply of each cell that has one, and why replies are unscored.
CREATE TABLE quotes (number INTEGER, target SMALLINT, quote VARCHAR);
CREATE TABLE reasons (target SMALLINT, reason VARCHAR, replies INTEGER);
"""

_COUNTED: Final = f"""
CREATE OR REPLACE TEMP TABLE counted AS
SELECT *, {" + ".join(_SCORED)} AS scored, greatest({", ".join(_SCORED)}) AS most,
       {" + ".join(f"({label} > 0)::INT" for label in _SCORED)} AS kinds
FROM (SELECT number, coalesce(bool_or(conflict), false) AS conflict, sum(replies) AS replies,
             {", ".join(f"sum(if(label = '{label}', replies, 0)) AS {label}" for label in LABELS)},
             sum(blocked) AS blocked
      FROM verdicts GROUP BY number)"""

_CELLS: Final = f"""
INSERT INTO cells
SELECT number, ?, CASE WHEN scored = 0 THEN 'unscored'
                       {" ".join(f"WHEN {label} = most THEN '{label}'" for label in _SCORED)} END,
       replies, conflict OR kinds > 1, CASE WHEN scored > 0 THEN refused / scored END AS share
FROM counted"""

_MIXED: Final = f"""
INSERT INTO mixed SELECT number, ?, {", ".join(COUNT_COLUMNS)} FROM counted
WHERE kinds + (unscored > 0)::INT > 1 OR blocked > 0"""


def read_verdicts(work: Workspace, say: Say) -> None:
    """Fill ``cells``: target by target, from logs, runs and earlier releases.

    Raises:
        OverbenchError: a line of a log is cut off, or not a sample of our tasks.
    """
    work.connection.execute(_TABLES)
    replaced = [0] * len(work.sources)
    for number, name in enumerate(work.targets):
        if not work.earlier_stands:
            _read_given(work, number, name)
        for place, source in enumerate(work.sources):
            _read_release(work, source, name)
            replaced[place] += _count_in(work)
        if work.earlier_stands:
            _read_given(work, number, name)
        work.connection.execute(_COUNTED)
        work.connection.execute(_CELLS, [number])
        work.connection.execute(_MIXED, [number])
        work.connection.execute("TRUNCATE verdicts")
        say(f"{name}: {work.one(f'SELECT count(*) FROM cells WHERE target = {number}'):,} prompts answered.")
    others = work.strangers.total()
    work.counts |= {"replies_to_other_prompts": others, "cells_replaced": sum(replaced)}
    if others:
        work.notes.append(
            f"{others:,} replies in the logs are to prompts of no source given; they are not counted."
        )
    for source, n in zip(work.sources, replaced, strict=True):
        if n:
            work.notes.append(
                f"{n:,} cells of the release {source.name} were replaced by verdicts given now, or by those "
                "of a release given before it; they are not counted twice."
            )


def _read_given(work: Workspace, number: int, name: str) -> None:
    for log in work.logs:
        if log.target.target == name:
            _read_log(work, log)
            _take_replies(work, number, log.run.task)
    for place, source in enumerate(work.sources):
        if source.target and source.target.target == name:
            _read_run(work, place)
            _take_replies(work, number, source.name)
    _count_in(work)


def _read_log(work: Workspace, log: Log) -> None:
    file = log.run.file
    if work.settings.relabel:
        processes = work.workers if file.stat().st_size > WORTH_A_POOL else 1
        for _, rows in in_order(_relabelled, chunks(read_replies(file), _CHUNK), processes):
            _insert(work, rows)
    elif not _read_samples(work, log):
        work.connection.execute("TRUNCATE replies")
        for rows in chunks(_sample_rows(file), BATCH):
            _insert(work, rows)
    found = work.one("SELECT count(*) FROM replies")
    if log.run.expected and found < log.run.expected:
        work.notes.append(
            f"{file.name} of {log.target.target} holds {found:,} replies to the {log.run.expected:,} "
            "prompts that its results file speaks of. Was it cut off, or run with --samples?"
        )


def _read_samples(work: Workspace, log: Log) -> bool:
    """Fill ``replies`` from a sample log, in parallel; whether that worked.

    DuckDB keeps two or three columns of it. Of the verdicts, which are JSON in a string, it parses what is
    wanted only. What it stumbles over is to be read line by line, which works or names the line.
    """
    import duckdb

    resps, reply, told = "", "", "NULL, NULL"
    if work.quoting:
        resps, reply = ", resps: 'VARCHAR[][]'", ", unnest(flatten(resps)) AS reply"
        told = f"json_extract_string(verdict, '$.reason'), reply[:{LONGEST_QUOTE}]"
    try:
        work.connection.execute(
            f"""
            INSERT INTO replies SELECT prompt, said[1], coalesce(said[2] = 'true', false), {told} FROM (
                SELECT *, json_extract_string(verdict, ['$.label', '$.blocked']) AS said FROM (
                SELECT doc.prompt AS prompt, unnest(flatten(filtered_resps)) AS verdict {reply}
                FROM read_json(?, format = 'newline_delimited', maximum_object_size = {_LARGEST_LINE},
                    columns = {{doc: 'STRUCT(prompt VARCHAR)', filter: 'VARCHAR',
                               filtered_resps: 'VARCHAR[][]' {resps}}})
                WHERE filter = ?))""",
            [str(log.run.file), log.run.filter],
        )
        labels = ", ".join(f"'{label}'" for label in LABELS)
        return not work.one(
            f"SELECT count(*) FROM replies WHERE prompt IS NULL OR coalesce(label, '') NOT IN ({labels})"
        )
    except duckdb.Error:
        return False


def _sample_rows(file: Path) -> Iterator[Reply]:
    for row in read_replies(file):
        for reply, verdict in zip(row.replies, row.logged or (), strict=True):
            prompt, reason = encodable(row.prompt or ""), encodable(verdict.reason)
            yield prompt, verdict.label, verdict.blocked, reason, encodable(reply[:LONGEST_QUOTE])


def _relabelled(rows: Sequence[ReplyRow]) -> list[Reply]:
    found = zip(rows, label_batch(rows, label_by_rules), strict=True)
    return [
        (row.prompt or "", verdict.label, verdict.blocked, None, None)
        for row, verdicts in found
        for verdict in verdicts
    ]


def _labelled(pairs: Sequence[Pair]) -> list[Reply]:
    verdicts = label_by_rules(pairs)
    found = zip(pairs, verdicts, strict=True)
    return [(prompt or "", verdict.label, verdict.blocked, None, None) for (prompt, _), verdict in found]


def _read_run(work: Workspace, place: int) -> None:
    if work.settings.relabel:
        query = "SELECT prompt, coalesce(reply, '') FROM records WHERE source = ? AND NOT blocked"
        for pairs in work.batches(query, [place]):
            _insert(work, _labelled(pairs))
    standing = "AND blocked" if work.settings.relabel else ""  # there is nothing to label
    work.connection.execute(
        f"""INSERT INTO replies SELECT prompt, label, blocked, NULL, NULL
            FROM records WHERE source = ? {standing}""",
        [place],
    )


def _insert(work: Workspace, rows: Sequence[Reply]) -> None:
    import pyarrow

    schema = work.connection.sql("FROM replies LIMIT 0").to_arrow_table().schema
    columns = dict(zip(schema.names, zip(*rows, strict=True), strict=True))
    work.insert("INSERT INTO replies FROM new", pyarrow.table(columns, schema=schema))


def _take_replies(work: Workspace, number: int, task: str) -> None:
    """Move ``replies`` to ``read_now``, and note those to prompts that are not ours."""
    connection = work.connection
    _learn_new_spellings(work)
    ours = "FROM replies JOIN spellings USING (prompt)"
    work.strangers[task] += work.one(f"SELECT count(*) {ours} WHERE number IS NULL")
    connection.execute(
        f"""INSERT INTO read_now
            SELECT number, replies.label, count(*), count(*) FILTER (blocked), false {ours}
            WHERE number IS NOT NULL GROUP BY ALL"""
    )
    if work.quoting:
        connection.execute(
            f"""INSERT INTO quotes SELECT number, {number}, min(quote) {ours}
                ANTI JOIN (FROM quotes WHERE target = {number}) AS known USING (number)
                WHERE number IS NOT NULL AND label = 'refused' GROUP BY number"""
        )
        connection.execute(
            f"""INSERT INTO reasons SELECT {number}, reason, count(*) {ours} ANTI JOIN verdicts USING (number)
                WHERE number IS NOT NULL AND label = 'unscored' GROUP BY ALL"""
        )
    connection.execute("TRUNCATE replies")


def _learn_new_spellings(work: Workspace) -> None:
    """A log may write a prompt in another way than the sources do, or hold prompts of no source."""
    import pyarrow

    for rows in work.batches("SELECT DISTINCT prompt FROM replies ANTI JOIN spellings USING (prompt)"):
        prompts = [prompt for (prompt,) in rows]
        work.insert(
            "INSERT INTO spellings SELECT new.prompt, prompts.number FROM new LEFT JOIN prompts USING (id)",
            pyarrow.table({"prompt": prompts, "id": [prompt_id(prompt) for prompt in prompts]}),
        )


def _read_release(work: Workspace, source: PromptSource, name: str) -> None:
    """The cells of an earlier release. Where it doesn't tell how many verdicts of a cell have each label, all
    count as of the cell's own."""
    own = zip(source.long_names, source.targets, strict=True)
    long_names = [long for long, target in own if target.target == name]
    if not (source.release and long_names):
        return
    connection = work.connection
    matrix = connection.read_parquet(str(source.release.folder / MATRIX_FILE))
    counted = "blocked" in matrix.columns
    matrix.create_view("earlier", replace=True)

    def verdicts(label: str) -> str:
        """How many verdicts of the cell have this label; those of an earlier version tell its own alone."""
        alike = f"if(earlier.label = '{label}', verdicts, 0)"
        return f"{{'label': '{label}', 'replies': {f'coalesce({label}, {alike})' if counted else alike}}}"

    connection.execute(
        f"""INSERT INTO read_now
            SELECT number, said.label, said.replies,
                   if(said.label = earlier.label, {"coalesce(blocked, 0)" if counted else 0}, 0), conflict
            FROM earlier JOIN prompts USING (id), unnest([{", ".join(map(verdicts, LABELS))}]) AS one(said)
            WHERE list_contains(?, target) AND said.replies > 0""",
        [long_names],
    )


def _count_in(work: Workspace) -> int:
    """Let ``read_now`` count for the cells that have no verdict yet; how many of its cells had one."""
    known = "(SELECT DISTINCT number FROM verdicts)"
    had_one = work.one(f"SELECT count(DISTINCT number) FROM read_now SEMI JOIN {known} USING (number)")
    work.connection.execute(f"INSERT INTO verdicts FROM read_now ANTI JOIN {known} USING (number)")
    work.connection.execute("TRUNCATE read_now")
    return had_one
