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
  new label, be it unscored. An outcome table counts as a release does, so that a cell has one labeller.
  Where an earlier release stands (``Workspace.earlier_stands``, for a report) it is the other way round.
"""

from __future__ import annotations

from typing import Final

from overbench.release.build import Say, Workspace
from overbench.release.release_inputs import Log, PromptSource
from overbench.release.replies import LONGEST_QUOTE, read_lines, read_outcomes, relabel_log, relabel_run
from overbench_tasks.outcomes.outcome import SCORED_LABELS
from overbench_tasks.outcomes.release_files import COUNT_COLUMNS
from overbench_tasks.prompts import prompt_id
from overbench_tasks.records import LABELS, PROVIDER, UNKNOWN_BLOCK
from overbench_tasks.text import number_of

_LARGEST_LINE: Final = 1 << 28
_TOLD: Final = ("$.label", "$.blocked", "$.reason", "$.by", "$.category")
"""What is read of a verdict."""

_UNSAFE: Final = "CASE coalesce(prompt_label, 'safe') WHEN 'safe' THEN false WHEN 'unsafe' THEN true END"
"""NULL where a log gives another side: the line is then read by itself, and its error names it."""

_TABLES: Final = f"""
CREATE TYPE label AS ENUM ({", ".join(f"'{label}'" for label in LABELS)});
-- All ways in which a prompt is written, by prompt; number NULL: not one of ours.
CREATE TABLE spellings AS SELECT DISTINCT records.prompt, number FROM records JOIN prompts USING (id);
-- Of the log or run in hand, one row per reply; the quote where it is wanted.
CREATE TABLE replies (
    prompt VARCHAR, label VARCHAR, blocked BOOLEAN, blocked_by VARCHAR, blocked_for VARCHAR, reason VARCHAR,
    quote VARCHAR, unsafe BOOLEAN);
-- Of the outcome tables: the same, with the place of the source and the model.
CREATE TABLE outcomes AS SELECT 0::SMALLINT AS source, '' AS model, * FROM replies;
-- Of the target in hand: those just read, and those that count.
CREATE TABLE read_now (
    number INTEGER, label label, replies INTEGER, blocked INTEGER, conflict BOOLEAN, labeller SMALLINT);
CREATE TABLE verdicts AS FROM read_now;
CREATE TABLE cells (
    number INTEGER, target SMALLINT, label label, verdicts INTEGER, conflict BOOLEAN, share FLOAT,
    labeller SMALLINT);
-- How many verdicts have each label, of the cells that label and number of verdicts don't tell it of.
CREATE TABLE mixed (
    number INTEGER, target SMALLINT, {", ".join(f"{name} INTEGER" for name in COUNT_COLUMNS)});
-- Why replies are unscored.
CREATE TABLE reasons (number INTEGER, target SMALLINT, reason VARCHAR);
-- By whom replies were withheld, and for what.
CREATE TABLE blocks (number INTEGER, target SMALLINT, blocked_by VARCHAR, blocked_for VARCHAR);
-- For a report: a refused reply of each cell that has one.
CREATE TABLE quotes (number INTEGER, target SMALLINT, quote VARCHAR);
"""

_COUNTED: Final = f"""
CREATE OR REPLACE TEMP TABLE counted AS
SELECT *, {" + ".join(SCORED_LABELS)} AS scored, greatest({", ".join(SCORED_LABELS)}) AS most,
       {" + ".join(f"({label} > 0)::INT" for label in SCORED_LABELS)} AS kinds
FROM (SELECT number, coalesce(bool_or(conflict), false) AS conflict, sum(replies) AS replies,
             min(labeller) AS labeller,
             {", ".join(f"sum(if(label = '{label}', replies, 0)) AS {label}" for label in LABELS)},
             sum(blocked) AS blocked
      FROM verdicts GROUP BY number)"""

CELL_LABEL: Final = (
    "CASE WHEN scored = 0 THEN 'unscored' "
    + " ".join(f"WHEN {label} = most THEN '{label}'" for label in SCORED_LABELS)
    + " END"
)
"""The label of a cell: :func:`~overbench_tasks.outcomes.outcome.majority_label` in SQL."""

_CELLS: Final = f"""
INSERT INTO cells
SELECT number, ?, {CELL_LABEL}, replies, conflict OR kinds > 1,
       CASE WHEN scored > 0 THEN refused / scored END AS share, labeller
FROM counted"""

_MIXED: Final = f"""
INSERT INTO mixed SELECT number, ?, {", ".join(COUNT_COLUMNS)} FROM counted
WHERE kinds + (unscored > 0)::INT > 1 OR blocked > 0"""


def read_verdicts(work: Workspace, say: Say) -> None:
    """Fill ``cells``: target by target, from logs, runs, earlier releases and outcome tables.

    Raises:
        OverbenchError: a line of a log is cut off, or not a sample of our tasks.
    """
    work.connection.execute(_TABLES)
    sources = [*work.sources, *work.beside]
    for place, source in enumerate(sources):
        if source.outcomes:
            read_outcomes(work, place, source.outcomes)
    known_unsafe = work.one("SELECT count(*) FROM unsafe_prompts")
    replaced = [0] * len(sources)
    for number, name in enumerate(work.targets):
        if not work.earlier_stands:
            _read_given(work, number, name)
        for place, source in enumerate(sources):
            _read_release(work, source, number, name)
            if source.outcomes:
                _take_outcomes(work, place, source, number, name)
            replaced[place] += _count_in(work)
        if work.earlier_stands:
            _read_given(work, number, name)
        work.connection.execute(_COUNTED)
        work.connection.execute(_CELLS, [number])
        work.connection.execute(_MIXED, [number])
        work.connection.execute("TRUNCATE verdicts")
        answered = work.one(f"SELECT count(*) FROM cells WHERE target = {number}")
        say(f"{name}: {number_of(answered, 'prompt')} answered.")
    others = work.strangers.total()
    work.counts |= {"replies_to_other_prompts": others, "cells_replaced": sum(replaced)}
    if others:
        work.notes.append(
            number_of(
                others,
                "reply in the logs is to a prompt of no source given; it is not counted.",
                "replies in the logs are to prompts of no source given; they are not counted.",
            )
        )
    for source, n in zip(sources, replaced, strict=True):
        if n:
            work.notes.append(
                f"Not counted twice: {number_of(n, 'cell')} of the {source.kind} {source.name}, replaced by "
                "verdicts given now, or by those of a release given before it."
            )
    if more := work.one("SELECT count(*) FROM unsafe_prompts") - known_unsafe:
        work.notes.append(
            f"Counted as unsafe: {number_of(more, 'prompt')}, safe in the sources and unsafe in a log."
        )
    if len(labellers := list(filter(None, work.labellers))) > 1:
        work.notes.append(
            f"Labels of {len(labellers)} labellers stand beside each other: {', '.join(labellers)}. Rates by "
            "different labellers compare as far as these agree."
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
        relabel_log(work, file)
    elif not _read_samples(work, log):
        work.connection.execute("TRUNCATE replies")
        read_lines(work, file)
    found = work.one("SELECT count(*) FROM replies")
    if log.run.expected and found < log.run.expected:
        work.notes.append(
            f"{file.name} of {log.target.target} holds {number_of(found, 'reply')} to the "
            f"{number_of(log.run.expected, 'prompt')} that its results file speaks of. Was it cut off, "
            "or run with --samples?"
        )


def _read_samples(work: Workspace, log: Log) -> bool:
    """Fill ``replies`` from a sample log, in parallel; whether that worked.

    DuckDB keeps two or three columns of it. Of the verdicts, which are JSON in a string, it parses what is
    wanted only. What it stumbles over is to be read line by line, which works or names the line.
    """
    import duckdb

    resps, reply, quote = "", "", "NULL"
    if work.quoting:
        resps, reply = ", resps: 'VARCHAR[][]'", ", unnest(flatten(resps)) AS reply"
        quote = f"reply[:{LONGEST_QUOTE}]"
    try:
        work.connection.execute(
            f"""
            INSERT INTO replies
            SELECT prompt, said[1], coalesce(said[2] = 'true', false),
                   if(starts_with(said[4], '{PROVIDER}'), replace(said[4], '{PROVIDER}', ''), ''),
                   coalesce(nullif(said[5], ''), replace(said[3], '{UNKNOWN_BLOCK}', '')),
                   said[3], {quote}, {_UNSAFE} FROM (
                SELECT *, json_extract_string(verdict, {list(_TOLD)}) AS said FROM (
                SELECT doc.prompt AS prompt, doc.prompt_label AS prompt_label,
                       unnest(flatten(filtered_resps)) AS verdict {reply}
                FROM read_json(?, format = 'newline_delimited', maximum_object_size = {_LARGEST_LINE},
                    columns = {{doc: 'STRUCT(prompt VARCHAR, prompt_label VARCHAR)', filter: 'VARCHAR',
                               filtered_resps: 'VARCHAR[][]' {resps}}})
                WHERE filter = ?))""",
            [str(log.run.file), log.run.filter],
        )
        labels = ", ".join(f"'{label}'" for label in LABELS)
        return not work.one(
            f"""SELECT count(*) FROM replies
                WHERE prompt IS NULL OR unsafe IS NULL OR coalesce(label, '') NOT IN ({labels})"""
        )
    except duckdb.Error:
        return False


def _read_run(work: Workspace, place: int) -> None:
    if work.settings.relabel:
        relabel_run(work, place)
    # Of what was withheld there is nothing to label.
    standing = "AND blocked_by IS NOT NULL" if work.settings.relabel else ""
    work.connection.execute(
        f"""INSERT INTO replies
            SELECT prompt, label, blocked_by IS NOT NULL, blocked_by, '', NULL, NULL, unsafe
            FROM records WHERE source = ? {standing}""",
        [place],
    )


def _take_outcomes(work: Workspace, place: int, source: PromptSource, number: int, name: str) -> None:
    work.connection.execute(
        """INSERT INTO replies SELECT * EXCLUDE (source, model) FROM outcomes
           WHERE source = ? AND list_contains(?, model)""",
        [place, source.own_names(name)],
    )
    _take_replies(work, number, None, work.labellers.index(source.labelled_by[0]))


def _take_replies(work: Workspace, number: int, task: str | None, labeller: int = 0) -> None:
    """Move ``replies`` to ``read_now``; count those to prompts that are not ours, unless ``task`` is None."""
    connection = work.connection
    _learn_new_spellings(work)
    ours = "FROM replies JOIN spellings USING (prompt)"
    if task is not None:
        work.strangers[task] += work.one(f"SELECT count(*) {ours} WHERE number IS NULL")
    connection.execute(
        f"""INSERT INTO read_now
            SELECT number, replies.label, count(*), count(*) FILTER (blocked), false, {labeller} {ours}
            WHERE number IS NOT NULL GROUP BY ALL"""
    )
    connection.execute(
        f"""INSERT INTO unsafe_prompts SELECT DISTINCT number {ours} ANTI JOIN unsafe_prompts USING (number)
            WHERE number IS NOT NULL AND unsafe"""
    )
    connection.execute(
        f"""INSERT INTO reasons
            SELECT DISTINCT number, {number}, reason {ours} ANTI JOIN verdicts USING (number)
            WHERE number IS NOT NULL AND label = 'unscored'"""
    )
    connection.execute(
        f"""INSERT INTO blocks
            SELECT DISTINCT number, {number}, blocked_by, blocked_for {ours}
            ANTI JOIN verdicts USING (number) WHERE number IS NOT NULL AND blocked"""
    )
    if work.quoting:
        connection.execute(
            f"""INSERT INTO quotes SELECT number, {number}, min(quote) {ours}
                ANTI JOIN (FROM quotes WHERE target = {number}) AS known USING (number)
                WHERE number IS NOT NULL AND label = 'refused' GROUP BY number"""
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


def _read_release(work: Workspace, source: PromptSource, number: int, name: str) -> None:
    """The cells of an earlier release. Where it doesn't tell how many verdicts of a cell have each label, all
    count as of the cell's own."""
    if not (source.release and (long_names := source.own_names(name))):
        return
    connection = work.connection
    matrix = connection.read_parquet([str(file) for file in source.release.matrix_files], union_by_name=True)
    counted = "blocked" in matrix.columns
    matrix.create_view("earlier", replace=True)

    def verdicts(label: str) -> str:
        """How many verdicts of the cell have this label; those of an earlier version tell its own alone."""
        alike = f"if(earlier.label = '{label}', verdicts, 0)"
        return f"{{'label': '{label}', 'replies': {f'coalesce({label}, {alike})' if counted else alike}}}"

    connection.execute(
        f"""INSERT INTO read_now
            SELECT number, said.label, said.replies,
                   if(said.label = earlier.label, {"coalesce(blocked, 0)" if counted else 0}, 0), conflict,
                   coalesce(list_position(?::VARCHAR[], labelled_by) - 1, 0)
            FROM earlier JOIN prompts USING (id), unnest([{", ".join(map(verdicts, LABELS))}]) AS one(said)
            WHERE list_contains(?, target) AND said.replies > 0""",
        [work.labellers, long_names],
    )
    if "reason" in matrix.columns:
        connection.execute(
            f"""INSERT INTO reasons SELECT number, {number}, reason
                FROM earlier JOIN prompts USING (id) ANTI JOIN verdicts USING (number)
                WHERE list_contains(?, target) AND label = 'unscored'""",
            [long_names],
        )
    if "blocked_by" in matrix.columns:
        connection.execute(
            f"""INSERT INTO blocks SELECT number, {number}, blocked_by, blocked_for
                FROM earlier JOIN prompts USING (id) ANTI JOIN verdicts USING (number)
                WHERE list_contains(?, target) AND blocked_by IS NOT NULL""",
            [long_names],
        )


def _count_in(work: Workspace) -> int:
    """Let ``read_now`` count for the cells that have no verdict yet; how many of its cells had one."""
    known = "(SELECT DISTINCT number FROM verdicts)"
    had_one = work.one(f"SELECT count(DISTINCT number) FROM read_now SEMI JOIN {known} USING (number)")
    work.connection.execute(f"INSERT INTO verdicts FROM read_now ANTI JOIN {known} USING (number)")
    work.connection.execute("TRUNCATE read_now")
    return had_one
