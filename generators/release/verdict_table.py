"""Who refused what: verdicts from logs, runs and earlier releases, joined into the table ``cells``.

What is given now goes before what an earlier release holds. An earlier release may be made of the very logs
that are given again, which its cells no longer tell, so of one cell (prompt and target)
- the verdicts of logs and runs given now count, and replace those of all earlier releases
- else those of the first release given that holds the cell.
So no verdict is counted twice, and a target asked anew has its new label, be it unscored.
"""

from __future__ import annotations

from generators.release import cells, responses
from generators.release import release_inputs as inputs
from generators.release.read import MATRIX_FILE
from generators.release.workspace import Say, Workspace


def read_verdicts(work: Workspace, say: Say) -> None:
    """Fill ``cells``: target by target, from logs, runs and earlier releases."""
    connection = work.connection
    cells.create_tables(connection)
    cells.add_spellings(connection)
    others = 0
    replaced = [0] * len(work.sources)
    for number, name in enumerate(work.targets):
        for log in work.logs:
            if log.target.target == name:
                _read_log(work, log)
        for place, source in enumerate(work.sources):
            if source.target and source.target.target == name:
                _read_run(work, place)
        for place, source in enumerate(work.sources):
            if source.release is not None:
                replaced[place] += _read_release(work, source, name)
        others += cells.finish_target(connection, number)
        n = work.one(f"SELECT count(*) FROM cells WHERE target = {number}")  # noqa: S608
        say(f"{name}: {n:,} prompts answered.")
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


def _read_log(work: Workspace, log: responses.Log) -> None:
    if work.settings.relabel:
        for rows in responses.relabelled(log, work.workers):
            cells.insert_replies(work.connection, rows)
    else:
        responses.load_verdicts(work.connection, log)
    found = work.one("SELECT count(*) FROM replies")
    if log.run.expected and found < log.run.expected:
        work.notes.append(
            f"{log.run.file.name} of {log.target.target} holds {found:,} replies to the {log.run.expected:,} "
            "prompts that its results file speaks of. Was it cut off, or run with --samples?"
        )
    cells.add_replies(work.connection)


def _read_run(work: Workspace, place: int) -> None:
    rows = "SELECT prompt, {} FROM records WHERE source = ?"
    if work.settings.relabel:
        from overbench_tasks.labellers import label_by_rules

        for batch in cells.batches(work.connection, rows.format("coalesce(reply, '')"), [place]):
            verdicts = label_by_rules(batch)
            labelled = [(row[0], verdict.label) for row, verdict in zip(batch, verdicts, strict=True)]
            cells.insert_replies(work.connection, labelled)
    else:
        work.connection.execute(f"INSERT INTO replies {rows.format('label')}", [place])
    cells.add_replies(work.connection)


def _read_release(work: Workspace, source: inputs.Source, name: str) -> int:
    """The cells of an earlier release; its verdicts of one cell count as so many of its label.

    Returns:
        how many were left out, because there are verdicts of the same cell already.
    """
    long_names = [long for long in source.long_names if work.aliases.name(long) == name]
    if source.release is None or not long_names:
        return 0
    connection = work.connection
    connection.execute(
        """CREATE OR REPLACE TEMP TABLE earlier AS SELECT number, label, verdicts, conflict
           FROM read_parquet(?) AS matrix JOIN prompts USING (id) WHERE list_contains(?, target)""",
        [str(source.release.folder / MATRIX_FILE), long_names],
    )
    new = "(SELECT DISTINCT number FROM verdicts WHERE number IS NOT NULL)"
    replaced = work.one(f"SELECT count(*) FROM earlier SEMI JOIN {new} USING (number)")  # noqa: S608
    connection.execute(f"INSERT INTO verdicts SELECT * FROM earlier ANTI JOIN {new} USING (number)")  # noqa: S608
    connection.execute("DROP TABLE earlier")
    return replaced
