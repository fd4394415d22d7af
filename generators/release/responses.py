"""The verdicts of lm-eval's sample logs: whose they are, and as rows of the database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from generators.targets.naming import Aliases, TargetRecord, name_target
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers import label_by_rules
from overbench_tasks.logs import LoggedRun, find_runs, read_replies
from overbench_tasks.records import LABELS, Pair
from overbench_tasks.review.workers import WORTH_A_POOL, in_order

if TYPE_CHECKING:
    import duckdb

_LARGEST_LINE: Final = 1 << 28
_CHUNK: Final = 2_000


@dataclass(frozen=True)
class Log:
    """One sample log and whose it is.

    Attributes:
        run: what the log and its results file tell.
        target: who was asked, by its short name.
        long_name: its name before aliases.
    """

    run: LoggedRun
    target: TargetRecord
    long_name: str


def find_logs(folders: Sequence[Path], aliases: Aliases) -> list[Log]:
    """All sample logs below the folders, each once, by target and file.

    Raises:
        OverbenchError: see :func:`overbench_tasks.logs.find_runs`.
    """
    logs = [_log(run, aliases) for run in find_runs(folders)]
    return sorted(logs, key=lambda log: (log.target.target, str(log.run.file)))


def _log(run: LoggedRun, aliases: Aliases) -> Log:
    target = name_target(
        run.model,
        run.model_args,
        run.system_instruction,
        run.chat_template,
        max_gen_toks=run.generation.get("max_gen_toks"),
        lm_eval_version=run.lm_eval_version,
        label_version=run.labelled_by,
    )
    return Log(run, aliases.target(target), target.target)


def load_verdicts(connection: duckdb.DuckDBPyConnection, log: Log) -> None:
    """Fill the table ``replies(prompt, label)`` with the verdicts of one log, a row per reply.

    Raises:
        OverbenchError: a line is cut off, or not a sample of our tasks.
    """
    import duckdb

    # DuckDB reads the file in parallel and keeps two columns of it. Of the verdicts, which are JSON in a
    # string, it parses the label only.
    try:
        connection.execute(
            f"""
            INSERT INTO replies
            SELECT doc.prompt, json_extract_string(unnest(flatten(filtered_resps)), '$.label')
            FROM read_json(?, format = 'newline_delimited', maximum_object_size = {_LARGEST_LINE},
                columns = {{doc: 'STRUCT(prompt VARCHAR)', filter: 'VARCHAR', filtered_resps: 'VARCHAR[][]'}})
            WHERE filter = ?""",  # noqa: S608
            [str(log.run.file), log.run.filter],
        )
        problem = connection.execute(
            "SELECT 1 FROM replies "
            "WHERE prompt IS NULL OR label IS NULL OR NOT list_contains(?, label) LIMIT 1",
            [list(LABELS)],
        ).fetchall()
    except duckdb.Error as error:
        _explain(log.run.file, error)
    if problem:
        _explain(log.run.file, None)


def _explain(file: Path, error: Exception | None) -> None:
    """Find the line that DuckDB stumbled over, and say what is wrong with it."""
    try:
        for _ in read_replies(file):
            pass
    except OverbenchError as found:
        raise OverbenchError(str(found)) from error
    raise OverbenchError(f"{file}: cannot be read: {error or 'a line without prompt or label'}.") from error


def relabelled(log: Log, workers: int = 1) -> Iterator[list[tuple[str, str]]]:
    """(prompt, label) of every reply of a log by today's rules, in chunks.

    Args:
        workers: processes, for a log that is worth starting them.

    Raises:
        OverbenchError: as :func:`load_verdicts`.
    """
    processes = workers if log.run.file.stat().st_size > WORTH_A_POOL else 1
    for _, labels in in_order(_labels, _reply_chunks(log.run.file), processes):
        yield labels


def _reply_chunks(file: Path) -> Iterator[list[Pair]]:
    pairs: list[Pair] = []
    for row in read_replies(file):
        pairs.extend(row.pairs())
        if len(pairs) >= _CHUNK:
            yield pairs
            pairs = []
    yield pairs


def _labels(pairs: list[Pair]) -> list[tuple[str, str]]:
    verdicts = label_by_rules(pairs)
    return [(str(prompt), verdict.label) for (prompt, _), verdict in zip(pairs, verdicts, strict=True)]
