"""The prompts of a release: read from all sources, one per text, without near duplicates.

Fills the tables ``records``, ``prompts`` and ``kept`` of the workspace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from generators.release import cells
from generators.release import release_inputs as inputs
from generators.release.workspace import Say, Workspace
from overbench_tasks.prompts import normalised, prompt_id


def read_prompts(work: Workspace, say: Say) -> None:
    """Fill ``records`` (a row per row of a source) and ``prompts`` (a row per text).

    Two spellings of one text (:func:`~overbench_tasks.prompts.normalised`) are one prompt, under the id
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


def drop_near_duplicates(work: Workspace, say: Say) -> None:
    """Fill ``kept``, the numbers of the prompts that stay; of like ones, the one that most targets answered.

    Replies to a prompt that is dropped are dropped with it: they are no replies to the one that stays.
    """
    import pyarrow

    from generators.near_duplicates import near_duplicates

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


def drop_refused_by_none(work: Workspace, say: Say) -> None:
    """Take from ``kept`` what every target (of those with any reply) answered and none refuses, if so set."""
    work.counts["refused_by_none"] = 0
    if not work.settings.refused_only or not work.targets:
        return
    before = work.counts["kept"]
    work.connection.execute(
        """DELETE FROM kept WHERE number IN (
               SELECT number FROM cells WHERE label != 'unscored' GROUP BY number
               HAVING count(*) = ? AND count(*) FILTER (label = 'refused') = 0)""",
        [len(work.targets)],
    )
    work.counts["kept"] = work.one("SELECT count(*) FROM kept")
    work.counts["refused_by_none"] = before - work.counts["kept"]
    say(f"{work.counts['refused_by_none']:,} that no target refuses dropped, {work.counts['kept']:,} kept.")
