"""``overbench aggregate``: from refresh runs and lm-eval logs to a release.

    sources -> records -> prompts (one per text)
    logs, runs, earlier releases -> verdicts -> cells (one per prompt and target)
    prompts - near duplicates + categories -> OVERBENCH; refused by enough targets -> OVERBENCH-HARD

Works in a DuckDB database in memory, which spills what does not fit into a folder beside the release.
The same inputs give the same files, byte by byte.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from generators.release import cells, inputs, naming, responses
from generators.release.errors import ReleaseError
from generators.release.read import Target
from overbench_tasks.sources import normalised, prompt_id

if TYPE_CHECKING:
    import duckdb

Say = Callable[[str], None]


class AggregateSettings(BaseModel):
    """What makes a release out of its inputs. Kept in ``release.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(None, description="Of the release. Default: that of its folder.")
    version: str = Field("1.0", description="Of the release.")
    prompts: inputs.Which = Field(
        "accepted",
        description="Of a refresh run, every prompt that passed its gates (the fair base of a rate), or only "
        "the verified ones, which its target refuses (as in the paper).",
    )
    min_rejections: int = Field(
        5, ge=1, description="OVERBENCH-HARD: refused by so many targets at least (the paper: 5)."
    )
    min_checkpoints: int = Field(
        1, ge=1, description="OVERBENCH-HARD: refused by so many different checkpoints at least."
    )
    near_duplicates: float = Field(
        0.8,
        gt=0,
        le=1,
        description="Jaccard similarity from which two prompts are near duplicates, as in the novelty gate; "
        "1 keeps all but those that differ in the frame's words alone.",
    )
    aliases: tuple[str, ...] = Field((), description="LONG NAME=short name, or LONG NAME=short@checkpoint.")
    relabel: bool = Field(False, description="Label all replies anew, by today's rules.")


class EngineSettings(BaseModel):
    """How much of the machine to use; the release does not depend on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory_limit: str = "2GB"
    threads: int | None = Field(None, ge=1)


@dataclass
class Workspace:
    """A release in the making.

    Attributes:
        connection: DuckDB with the tables records, prompts, spellings, cells and, at the end, kept.
        sources: what was given.
        logs: the sample logs.
        targets: those with a verdict, by name; their number is their place.
        counts: of every step.
        notes: for people.
    """

    connection: duckdb.DuckDBPyConnection
    settings: AggregateSettings
    sources: list[inputs.Source]
    logs: list[responses.Log]
    aliases: naming.Aliases
    targets: dict[str, Target]
    labelled_by: str | None
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def one(self, query: str) -> int:
        """The one number that a query gives."""
        return int(self.connection.execute(query).fetchall()[0][0])


def aggregate(
    runs: Sequence[Path],
    responses_folders: Sequence[Path],
    out: Path,
    settings: AggregateSettings | None = None,
    *,
    engine: EngineSettings | None = None,
    overwrite: bool = False,
    say: Say = lambda line: None,
) -> dict[str, Any]:
    """Make a release.

    Args:
        runs: refresh runs, prompt files, earlier releases. Where a prompt is in several, the first is
            asked first for what only one can say.
        responses_folders: lm-eval outputs.
        out: the release's folder; it appears when it is complete, or not at all.
        engine: memory and threads.
        overwrite: replace a release that is there.
        say: told what happens, a line at a time.

    Returns:
        what ``release.json`` holds.

    Raises:
        ReleaseError: an input cannot be used, or ``out`` is there already.
    """
    from generators.release import write

    settings = settings or AggregateSettings()
    if out.exists() and not overwrite:
        raise ReleaseError(f"{out} is there already. Choose another --out, or replace it with --overwrite.")
    aliases = naming.Aliases(settings.aliases)
    sources = inputs.find_sources(list(runs), settings.prompts, aliases)
    logs = responses.find_logs(responses_folders, aliases)
    targets = _targets(sources, logs, aliases)
    labelled_by = _one_labeller(sources, logs, settings.relabel)
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        (partial / "work").mkdir(parents=True)
        with _database(partial / "work", engine or EngineSettings()) as connection:
            work = Workspace(connection, settings, sources, logs, aliases, targets, labelled_by)
            read_prompts(work, say)
            aliases.check_used(_long_names(work))
            read_verdicts(work, say)
            drop_near_duplicates(work, say)
            facts = write.write_release(work, partial, settings.name or out.name, out, say)
        shutil.rmtree(partial / "work")
        write.put_in_place(partial, out)
    except OSError as error:
        raise ReleaseError(f"{out} cannot be written: {error}. Make room or mend the rights.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return facts


def _database(folder: Path, engine: EngineSettings) -> duckdb.DuckDBPyConnection:
    import duckdb

    # In memory, so that nothing is logged; what exceeds the limit is spilled all the same.
    connection = duckdb.connect()
    try:
        connection.execute("SET memory_limit = ?", [engine.memory_limit])
    except duckdb.Error as error:
        connection.close()
        raise ReleaseError(f"--memory_limit: expected a size such as 2GB: {error}") from error
    connection.execute("SET temp_directory = ?", [str(folder / "spilled")])
    connection.execute("SET preserve_insertion_order = false")  # results are sorted where it matters
    connection.execute("SET enable_progress_bar = false")
    if engine.threads:
        connection.execute("SET threads = ?", [engine.threads])
    return connection


def _targets(
    sources: Sequence[inputs.Source], logs: Sequence[responses.Log], aliases: naming.Aliases
) -> dict[str, Target]:
    found = [log.target for log in logs] + [source.target for source in sources if source.target]
    for source in sources:
        if source.release is not None:
            found += [aliases.target(target) for target in source.release.targets()]
    return naming.joined(found)


def _one_labeller(
    sources: Sequence[inputs.Source], logs: Sequence[responses.Log], relabel: bool
) -> str | None:
    """Who labelled all replies.

    Raises:
        ReleaseError: several did, so that their labels do not compare.
    """
    examples: dict[str, str] = {}
    for source in sources:
        if relabel and not source.release:
            continue
        for name in source.labelled_by:
            examples.setdefault(name, source.name)
    for log in logs if not relabel else ():
        examples.setdefault(log.labelled_by, str(log.file))
    if relabel and logs + [source for source in sources if source.target]:
        from overbench_tasks.refusal import RULES_VERSION

        examples.setdefault(f"rules {RULES_VERSION}", "the replies labelled now")
    if len(examples) > 1:
        listed = "; ".join(f"{name} ({example})" for name, example in sorted(examples.items()))
        help_ = (
            "An earlier release holds no replies to label anew: give the logs it was made of instead."
            if relabel
            else "Label all replies anew by today's rules with --relabel, or leave out all but one kind."
        )
        raise ReleaseError(
            f"The replies were labelled by {len(examples)} different labellers or versions, whose labels do "
            f"not compare: {listed}. {help_}"
        )
    return next(iter(examples), None)


def _long_names(work: Workspace) -> set[str]:
    names = {log.long_name for log in work.logs}
    return names.union(*(source.long_names for source in work.sources))


def read_prompts(work: Workspace, say: Say) -> None:
    """Fill ``records`` (a row per row of a source) and ``prompts`` (a row per text).

    Two spellings of one text (:func:`~overbench_tasks.sources.normalised`) are one prompt, under the id
    made from the text. The first source decides on what only one can say; features, sources and targets
    are joined.
    """
    import pyarrow

    connection = work.connection
    connection.execute("""
        CREATE TABLE records (
            position BIGINT, id VARCHAR, prompt VARCHAR, category VARCHAR, category_evidence VARCHAR,
            or_bench_category VARCHAR, features VARCHAR[], sources VARCHAR[], seed_id VARCHAR, round INTEGER,
            source_targets VARCHAR[], generator VARCHAR, moderation VARCHAR, label VARCHAR, reply VARCHAR,
            source INTEGER)""")
    schema = _records_schema(connection.sql("FROM records").columns)
    position = 0
    for number, source in enumerate(work.sources):
        for batch in _batched(inputs.records(source, work.aliases)):
            by_column = zip(*batch, strict=True)
            columns: dict[str, Any] = dict(zip(inputs.PromptRecord._fields, by_column, strict=True))
            columns |= {
                "position": range(position, position + len(batch)),
                "id": [prompt_id(record.prompt) for record in batch],
                "source": [number] * len(batch),
            }
            position += len(batch)
            connection.register("batch", pyarrow.table(columns, schema=schema))
            connection.execute("INSERT INTO records BY NAME SELECT * FROM batch")
            connection.unregister("batch")
    connection.execute("""
        CREATE TABLE prompts AS
        SELECT (row_number() OVER (ORDER BY id))::INTEGER AS number, * FROM (
            SELECT id, arg_min(prompt, position) AS prompt,
                   arg_min(category, position) AS category,
                   arg_min(category_evidence, position) FILTER (category IS NOT NULL) AS category_evidence,
                   arg_min(or_bench_category, position) AS or_bench_category,
                   flatten(list(features ORDER BY position)) AS features,
                   list_sort(list_distinct(flatten(list(sources)))) AS sources,
                   list_sort(list_distinct(flatten(list(source_targets)))) AS source_targets,
                   arg_min(seed_id, position) AS seed_id, arg_min(round, position) AS round,
                   arg_min(generator, position) AS generator, arg_min(moderation, position) AS moderation
            FROM records GROUP BY id)""")
    distinct = work.one("SELECT count(*) FROM prompts")
    work.counts |= {"read": position, "exact_duplicates": position - distinct}
    say(f"{position:,} prompts read from {len(work.sources)} sources, {distinct:,} different ones.")


def _records_schema(names: Sequence[str]) -> Any:
    import pyarrow

    special = {
        "position": pyarrow.int64(),
        "source": pyarrow.int32(),
        "round": pyarrow.int32(),
        **dict.fromkeys(("features", "sources", "source_targets"), pyarrow.list_(pyarrow.string())),
    }
    return pyarrow.schema([(name, special.get(name, pyarrow.string())) for name in names])


def _batched(records: Iterator[inputs.PromptRecord]) -> Iterator[list[inputs.PromptRecord]]:
    batch = []
    for record in records:
        batch.append(record)
        if len(batch) == cells.BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


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


def drop_near_duplicates(work: Workspace, say: Say) -> None:
    """Fill ``kept``, the numbers of the prompts that stay; of like ones, the one that most targets answered.

    Replies to a prompt that is dropped are dropped with it: they are no replies to the one that stays.
    """
    import pyarrow

    from generators.release.duplicates import near_duplicates

    connection = work.connection
    query = """
        SELECT number, prompt FROM prompts LEFT JOIN (
            SELECT number, count(*) AS answered FROM cells WHERE label != 'unscored' GROUP BY number)
        USING (number) ORDER BY coalesce(answered, 0) DESC, number"""
    rows = [row for batch in cells.batches(connection, query) for row in batch]
    found = near_duplicates([normalised(prompt) for _, prompt in rows], work.settings.near_duplicates)
    dropped = pyarrow.table({"number": pyarrow.array([rows[later][0] for later, _, _ in found], "int32")})
    connection.register("dropped", dropped)
    connection.execute("CREATE TABLE kept AS SELECT number FROM prompts ANTI JOIN dropped USING (number)")
    connection.unregister("dropped")
    work.counts |= {"near_duplicates": len(found), "kept": work.one("SELECT count(*) FROM kept")}
    say(f"{len(found):,} near duplicates dropped, {work.counts['kept']:,} prompts kept.")
