"""Writes a release: the Parquet files, ``release.json``, the card, the gaps and the checksums.

Everything is ordered by id and written by one thread, so that equal inputs give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.categories.keywords import Categorised, categorise
from overbench.release.build import checkpoints_needed, choose_hard, matrix_counts, more_columns
from overbench.release.card import card, find_gaps, prompt_figures, write_gaps
from overbench_tasks import __version__
from overbench_tasks.outcomes.release_files import (
    BLOCK_COLUMNS,
    CARD_FILE,
    COUNT_COLUMNS,
    DECODING_COLUMN,
    HARD_FILE,
    IDENTITY_COLUMNS,
    MATRIX_COLUMNS,
    MATRIX_FILE,
    PROMPT_COLUMNS,
    PROMPTS_FILE,
    REASON_COLUMN,
    RELEASE_FILE,
    TARGET_COLUMNS,
    TARGETS_FILE,
    UNSAFE_FILE,
    UNSAFE_MATRIX_FILE,
    arrow_schema,
    target_of_row,
)
from overbench_tasks.outcomes.target_record import TargetRecord, public_arguments
from overbench_tasks.refusal import RULES_VERSION
from overbench_tasks.text import number_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow
    import pyarrow.parquet

    from overbench.release.build import Say, Workspace

BATCH = 100_000


def write_release(work: Workspace, folder: Path, name: str, out: Path, say: Say) -> dict[str, Any]:
    """Write all files of a release into ``folder``; returns what ``release.json`` holds.

    Raises:
        OSError: a file cannot be written.
    """
    choosing = choose_hard(work, say)
    data_version = f"{name} {work.settings.version}"
    _write_prompts(work, folder, data_version)
    write_unsafe(work, folder, data_version)
    write_matrix(work, folder)
    if unreadable := work.counts.get("judge_asked", 0) - work.counts.get("judge_filed", 0):
        work.notes.append(
            f"Filed by keywords: {number_of(unreadable, 'prompt')} on which the category judge did not "
            "answer."
        )
    missing = find_gaps(work)
    write_gaps(work, folder, missing)
    facts = {
        "name": name,
        "version": work.settings.version,
        "settings": _public_settings(work),
        "sources": [{"name": source.name, "kind": source.kind} for source in work.sources],
        "logs": [{"file": log.run.file.name, "target": log.target.target} for log in work.logs],
        "labelled_by": " + ".join(filter(None, work.labellers)) or None,
        "counts": work.counts | matrix_counts(work),
        "categories": {
            category: {
                "overbench": work.shares[category, False] + work.shares[category, True],
                "overbench_hard": work.shares[category, True],
            }
            for category in sorted({category for category, _ in work.shares})
        },
        "gaps": [asdict(gap) for gap in missing],
        "notes": work.notes,
        # Of a release without it, as those of earlier versions, all targets chose the hard set.
        **({"hard_targets": choosing} if len(choosing) < len(work.targets) else {}),
        **({"columns": list(more)} if (more := more_columns(work, "kept")) else {}),
        "software": {
            "overbench": __version__,
            "rules": RULES_VERSION,
            **{package: version(package) for package in ("duckdb", "numpy", "pyarrow")},
        },
    }
    _write_text(folder / RELEASE_FILE, json.dumps(facts, ensure_ascii=False, indent=2) + "\n")
    _write_text(
        folder / CARD_FILE,
        card(facts, list(work.targets.values()), prompt_figures(work), work.settings.about),
    )
    say(f"{number_of(work.counts['hard'], 'prompt')} in overbench_hard. Release: {out}")
    for note in work.notes:
        say(f"Note: {note}")
    open_cells = sum(gap.missing + gap.unscored for gap in missing)
    if open_cells:
        say(f"{open_cells:,} of the matrix's cells are open: see {out / 'gaps.md'}.")
    return facts


def _public_settings(work: Workspace) -> dict[str, Any]:
    """The settings without the names of folders, which long names may hold, and with the judge's."""
    settings = work.settings.model_dump(mode="json", exclude={"about", "hard_targets"})
    settings["min_checkpoints"] = checkpoints_needed(work.settings)
    settings["aliases"] = [
        Path(text).name if text.startswith(("/", "~")) else text for text in work.aliases.texts
    ]
    if work.category_judge is not None:
        from generators.categories.category_judge import public_settings

        settings["category_judge"] = public_settings(work.category_judge)
    return settings


def write_logged(work: Workspace, folder: Path, *, filed: bool = True) -> None:
    """The tables of a release of logs or runs alone: all prompts are kept.

    Args:
        filed: whether they keep the categories that they have; else those without one are filed by keywords.
    """
    work.connection.execute("CREATE TABLE hard AS SELECT number FROM prompts LIMIT 0")
    _write_prompts(work, folder, "", filed=filed)
    write_unsafe(work, folder, "")
    write_matrix(work, folder)


def write_unsafe(work: Workspace, folder: Path, data_version: str) -> None:
    """``unsafe.parquet`` and ``unsafe_matrix.parquet``, where there are unsafe prompts.

    Their categories are those of the sources: ours are of what only seems harmful.
    """
    if work.one("SELECT count(*) FROM kept_unsafe"):
        query = _prompt_rows(work, "kept_unsafe")
        schema = arrow_schema(PROMPT_COLUMNS | more_columns(work, "kept_unsafe"))
        with _parquet(folder / UNSAFE_FILE, schema) as prompts:
            for batch in _arrow(work.connection, query):
                prompts.write_table(_prompt_table(work, batch, data_version, schema, filed=True))
        _write_cells(work, folder / UNSAFE_MATRIX_FILE, "kept_unsafe")


def _write_prompts(work: Workspace, folder: Path, data_version: str, *, filed: bool = False) -> None:
    """``overbench.parquet`` and ``overbench_hard.parquet``; counts the categories in ``work.shares``.

    Args:
        filed: whether the prompts have their categories already.
    """
    schema = arrow_schema(PROMPT_COLUMNS | more_columns(work, "kept"))
    query = _prompt_rows(work, "kept")
    with _parquet(folder / PROMPTS_FILE, schema) as prompts, _parquet(folder / HARD_FILE, schema) as hard:
        for batch in _arrow(work.connection, query):
            table = _prompt_table(work, batch, data_version, schema, filed=filed)
            prompts.write_table(table)
            hard.write_table(table.filter(batch["hard"]))
            work.shares.update(zip(table["category"].to_pylist(), batch["hard"].to_pylist(), strict=True))


def _prompt_rows(work: Workspace, kept: str) -> str:
    """The query of the prompts that a table of numbers keeps, with who answered them."""
    work.connection.execute(f"""
        CREATE OR REPLACE TABLE answers AS
        SELECT number, list_sort(list(target) FILTER (label = 'refused')) AS refused_by,
               list_sort(list(target) FILTER (label != 'unscored')) AS answered_by,
               round(avg(share::DOUBLE), 6) AS difficulty
        FROM cells JOIN {kept} USING (number) GROUP BY number""")
    return f"""
        SELECT prompts.*, refused_by, answered_by, difficulty, hard.number IS NOT NULL AS hard
        FROM prompts JOIN {kept} USING (number) LEFT JOIN answers USING (number) LEFT JOIN hard USING (number)
        ORDER BY prompts.number"""


def _prompt_table(
    work: Workspace, batch: pyarrow.RecordBatch, data_version: str, schema: pyarrow.Schema, *, filed: bool
) -> pyarrow.Table:
    """Rows of :func:`_prompt_rows` as they are written."""
    import pyarrow

    names = pyarrow.array(list(work.targets), pyarrow.string())
    columns = {name: batch[name] for name in batch.schema.names}
    if not filed:
        columns |= _categories(work, batch)
    columns["features"] = [list(dict.fromkeys(words)) for words in batch["features"].to_pylist()]
    for name in ("refused_by", "answered_by"):
        columns[name] = _named(batch[name], names)
    columns["data_version"] = [data_version] * len(batch)
    return pyarrow.table({name: columns[name] for name in schema.names}).cast(schema)


def _categories(work: Workspace, batch: pyarrow.RecordBatch) -> dict[str, list[str | None]]:
    """The columns of categories: as the sources have them, else by a judge, else by keywords."""
    found: dict[str, list[str | None]] = {
        name: [] for name in ("category", "category_evidence", "or_bench_category")
    }
    rows = list(zip(*(batch[name].to_pylist() for name in ("prompt", "features", *found)), strict=True))
    judged = iter(_judged(work, [(prompt, features) for prompt, features, given, *_ in rows if not given]))
    for prompt, features, category, evidence, or_bench in rows:
        ours = categorise(prompt, features) if category or work.category_judge is None else next(judged)
        found["category"].append(category or ours.category)
        found["category_evidence"].append(evidence if category else ours.evidence)
        found["or_bench_category"].append(or_bench or ours.or_bench_category)
    return found


def _judged(work: Workspace, rows: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Categorised]:
    if (judge := work.category_judge) is None:
        return ()
    from generators.categories.category_judge import evidence_of, judge_categories

    prompts, features = [prompt for prompt, _ in rows], [words for _, words in rows]
    found = judge_categories(prompts, features, judge) if rows else []
    filed = sum(one.evidence == evidence_of(judge) for one in found)
    for name, n in (("judge_asked", len(found)), ("judge_filed", filed)):
        work.counts[name] = work.counts.get(name, 0) + n
    return found


def _named(lists: pyarrow.Array, names: pyarrow.Array) -> pyarrow.Array:
    """Lists of target numbers as lists of names; NULL as an empty list."""
    import pyarrow
    import pyarrow.compute

    lengths = pyarrow.compute.fill_null(pyarrow.compute.list_value_length(lists), 0)
    ends = pyarrow.compute.cumulative_sum(lengths).cast("int32")
    offsets = pyarrow.concat_arrays([pyarrow.array([0], pyarrow.int32()), ends])
    return pyarrow.ListArray.from_arrays(offsets, names.take(lists.flatten()))


def write_matrix(work: Workspace, folder: Path) -> None:
    """``matrix.parquet`` and ``targets.parquet``."""
    import pyarrow

    _write_cells(work, folder / MATRIX_FILE, "kept")
    sampled = any(target.decoding for target in work.targets.values())
    columns = TARGET_COLUMNS | (DECODING_COLUMN if sampled else {})
    rows = [
        asdict(target)
        | {"model_args": public_arguments(target.model_args), "label_version": _labellers(work, number)}
        for number, target in enumerate(work.targets.values())
    ]
    if any(_identity(target_of_row({name: row[name] for name in columns})) != _identity(row) for row in rows):
        columns |= IDENTITY_COLUMNS
    schema = arrow_schema(columns)
    with _parquet(folder / TARGETS_FILE, schema) as targets:
        targets.write_table(pyarrow.Table.from_pylist(rows, schema=schema))


def _identity(row: TargetRecord | Mapping[str, Any]) -> list[Any]:
    fields = asdict(row) if isinstance(row, TargetRecord) else row
    return [fields[name] for name in IDENTITY_COLUMNS]


def _labellers(work: Workspace, target: int) -> str | None:
    """Who labelled a target's cells; without any, who labels what is given."""
    query = "SELECT DISTINCT labeller FROM cells WHERE target = ? ORDER BY ALL"
    found = work.connection.execute(query, [target]).fetchall()
    return " + ".join(filter(None, (work.labellers[place] for (place,) in found))) or work.labelled_by


def _write_cells(work: Workspace, file: Path, kept: str) -> None:
    """The cells of the prompts that a table of numbers keeps."""
    import pyarrow

    connection = work.connection
    counts = COUNT_COLUMNS if work.one(f"SELECT count(*) FROM mixed SEMI JOIN {kept} USING (number)") else {}
    unscored = f"SELECT count(*) FROM cells SEMI JOIN {kept} USING (number) WHERE label = 'unscored'"
    reason = REASON_COLUMN if work.one(unscored) else {}
    withheld = f"SELECT count(*) FROM blocks SEMI JOIN {kept} USING (number)"
    blocks = BLOCK_COLUMNS if work.one(withheld) else {}
    schema = arrow_schema(MATRIX_COLUMNS | counts | blocks | reason)
    # Small numbers are sorted, not texts; those are put in their place batch by batch.
    ids = connection.sql("SELECT id FROM prompts ORDER BY number").to_arrow_table()["id"].combine_chunks()
    names = pyarrow.array(list(work.targets), pyarrow.string())
    labellers = pyarrow.array(work.labellers, pyarrow.string())
    alike = {name: "0" if name == "blocked" else f"if(label = '{name}', verdicts, 0)" for name in counts}
    told = "".join(f", coalesce({name}, {told}) AS {name}" for name, told in alike.items())
    if reason:
        told += ", if(label = 'unscored', reason, NULL) AS reason"
    if blocks:
        told += ", block.blocked_by AS blocked_by, block.blocked_for AS blocked_for"
    more = "LEFT JOIN mixed USING (number, target)" if counts else ""
    first = "(SELECT number, target, min(reason) AS reason FROM reasons GROUP BY ALL)"
    first_block = "(SELECT number, target, min(blocks) AS block FROM blocks GROUP BY ALL)"
    query = f"""
        SELECT number - 1 AS number, target, label::VARCHAR AS label, verdicts, conflict, labeller {told}
        FROM cells SEMI JOIN {kept} USING (number) {more}
        {f"LEFT JOIN {first} USING (number, target)" if reason else ""}
        {f"LEFT JOIN {first_block} USING (number, target)" if blocks else ""}
        ORDER BY number, target"""
    with _parquet(file, schema) as matrix:
        for batch in _arrow(connection, query):
            columns = {name: batch[name] for name in batch.schema.names} | {
                "id": ids.take(batch["number"]),
                "target": names.take(batch["target"]),
                "labelled_by": labellers.take(batch["labeller"]),
            }
            table = pyarrow.table({name: columns[name] for name in schema.names})
            matrix.write_table(table.cast(schema))


def _arrow(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[pyarrow.RecordBatch]:
    """A query's rows; other queries may run between two batches."""
    yield from connection.cursor().sql(query).to_arrow_reader(BATCH)


def _parquet(file: Path, schema: pyarrow.Schema) -> pyarrow.parquet.ParquetWriter:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")


def _write_text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="\n")
