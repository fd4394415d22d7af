"""Who refused what: verdicts from logs, runs and earlier releases, joined into the table ``cells``."""

from __future__ import annotations

from generators.release import cells, inputs, responses
from generators.release.workspace import Say, Workspace


def read_verdicts(work: Workspace, say: Say) -> None:
    """Fill ``cells``: target by target, from logs, runs and earlier releases."""
    connection = work.connection
    cells.create_tables(connection)
    cells.add_spellings(connection)
    others = 0
    for number, name in enumerate(work.targets):
        for log in work.logs:
            if log.target.target == name:
                _read_log(work, log)
        for place, source in enumerate(work.sources):
            if source.target and source.target.target == name:
                _read_run(work, place)
            if source.release is not None:
                _read_release(work, source, name)
        others += cells.finish_target(connection, number)
        n = work.one(f"SELECT count(*) FROM cells WHERE target = {number}")  # noqa: S608
        say(f"{name}: {n:,} prompts answered.")
    work.counts["replies_to_other_prompts"] = others
    if others:
        work.notes.append(
            f"{others:,} replies in the logs are to prompts of no source given; they are not counted."
        )


def _read_log(work: Workspace, log: responses.Log) -> None:
    if work.settings.relabel:
        for rows in responses.relabelled(log):
            cells.insert_replies(work.connection, rows)
    else:
        responses.load_verdicts(work.connection, log)
    found = work.one("SELECT count(*) FROM replies")
    if log.expected and found < log.expected:
        work.notes.append(
            f"{log.file.name} of {log.target.target} holds {found:,} replies to the {log.expected:,} "
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


def _read_release(work: Workspace, source: inputs.Source, name: str) -> None:
    """The cells of an earlier release; its verdicts of one cell count as so many of its label."""
    if source.release is None:
        return
    short = {long: work.aliases.name(long) for long in source.long_names}
    for long in [long for long, alias in short.items() if alias == name]:
        work.connection.execute(
            """INSERT INTO verdicts SELECT number, label, verdicts, conflict
               FROM read_parquet(?) AS matrix JOIN prompts USING (id) WHERE target = ?""",
            [str(source.release.folder / "matrix.parquet"), long],
        )
