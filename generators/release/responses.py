"""lm-eval's sample logs of our tasks: which there are, whose they are, and what they say.

    FOLDER/<model>/results_<date>.json            the run: model, arguments, versions
    FOLDER/<model>/samples_<task>_<date>.jsonl    one line per filter and prompt, with the verdicts; also .gz

Of a task with several filters, the verdicts of the first count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from generators.release.read import Target
from generators.targets.naming import Aliases, name_target
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers import Pair, label_by_rules
from overbench_tasks.records import LABELS
from overbench_tasks.review.replies import Columns, read_row, read_rows
from overbench_tasks.review.workers import WORTH_A_POOL, in_order
from overbench_tasks.tables import json_lines, opened, parse_json

if TYPE_CHECKING:
    import duckdb

_SAMPLES: Final = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl(\.gz)?$")
_LARGEST_LINE: Final = 1 << 28
_CHUNK: Final = 2_000


@dataclass(frozen=True)
class Log:
    """One sample log.

    Attributes:
        task: its name in lm-eval.
        date: when the run ended, in lm-eval's words.
        results: the file with the run's settings.
        target: who was asked, by its short name.
        long_name: its name before aliases.
        labelled_by: who labelled, to the version, as :attr:`overbench_tasks.labellers.Labeller.name`.
        filter: the lm-eval filter whose verdicts count.
        expected: how many prompts the run says it asked; None where it does not say.
        decoding: lm-eval's ``generation_kwargs`` of the run, those of ``--gen_kwargs`` included.
    """

    file: Path
    task: str
    date: str
    results: Path
    target: Target
    long_name: str
    labelled_by: str
    filter: str
    expected: int | None
    decoding: Mapping[str, Any] = field(default_factory=dict)


def find_logs(folders: Sequence[Path], aliases: Aliases) -> list[Log]:
    """All sample logs below the folders, each once, by target and file.

    Raises:
        OverbenchError: no folder, no log in it, a log of another task, a log without its results file or
            with one that cannot be read.
    """
    files: dict[Path, None] = {}
    for folder in folders:
        found = sample_logs(folder)
        if not found:
            what = "no samples_*.jsonl below it" if folder.is_dir() else "no folder"
            raise OverbenchError(
                f"Expected lm-eval's output at --responses {folder}, found {what}. "
                "Check the path; lm_eval writes sample logs with --log_samples --output_path FOLDER."
            )
        files |= dict.fromkeys(file.resolve() for file in found)
    logs = [_log(file, aliases) for file in files]
    return sorted(logs, key=lambda log: (log.target.target, str(log.file)))


def sample_logs(folder: Path) -> list[Path]:
    """All sample logs below a folder, by their names, sorted; none where there is no folder.

    A compressed log beside the plain one is the same log.
    """
    plain = set(folder.rglob("samples_*.jsonl"))
    packed = (file for file in folder.rglob("samples_*.jsonl.gz") if file.with_suffix("") not in plain)
    return sorted([*plain, *packed])


def _log(file: Path, aliases: Aliases) -> Log:
    named = _SAMPLES.fullmatch(file.name)
    if named is None:
        raise OverbenchError(
            f"{file}: expected a name such as samples_overbench_<date>.jsonl, as lm-eval gives it. "
            "Rename the file as it was, or leave it out."
        )
    _check_first_line(file)
    results_file, results = _results(file, named["date"])
    task = named["task"]
    try:
        config = results["configs"][task]
        chosen = config["filter_list"][0]
        decoding = dict(config["generation_kwargs"])
        ran = results["config"]
        target = name_target(
            str(ran["model"]),
            ran.get("model_args") or {},
            results.get("system_instruction"),
            results.get("chat_template") is not None,
            max_gen_toks=decoding.get("max_gen_toks"),
            lm_eval_version=results.get("lm_eval_version"),
            label_version=labeller_of(chosen, config["metadata"]),
        )
        expected = results.get("n-samples", {}).get(task, {}).get("effective")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise OverbenchError(
            f"{results_file}: expected what lm-eval 0.4.13 writes of a run of {task!r}, found no {error}. "
            "Is it the results file of this log?"
        ) from error
    if target.label_version is None:
        raise OverbenchError(
            f"{results_file}: task {task!r} names no version of its labels (overbench_rules_version in its "
            "metadata). Was it run with another package's task? Leave it out, or run it again."
        )
    return Log(
        file,
        task,
        named["date"],
        results_file,
        aliases.target(target),
        target.target,
        target.label_version,
        str(chosen["name"]),
        expected,
        decoding,
    )


def _check_first_line(file: Path) -> None:
    try:
        with opened(file) as (stream, _):
            _, line = next(json_lines(stream, file), (0, b""))
        if not line:
            raise OverbenchError(f"{file} is empty. Leave it out, or run the evaluation again.")
        read_row(parse_json(line, f"{file}, line 1"), Columns(), f"{file}, line 1")
    except OverbenchError as error:
        raise OverbenchError(str(error)) from error


def _results(file: Path, date: str) -> tuple[Path, dict[str, Any]]:
    found = sorted(file.parent.glob(f"*_{date}.json"))
    if not found:
        raise OverbenchError(
            f"{file}: its results file, results_{date}.json, is not beside it, so whose replies these are is "
            "not known. Copy it there, or leave the log out."
        )
    try:
        results = json.loads(found[0].read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OverbenchError(f"{found[0]}: not readable as JSON ({error}). Is the file complete?") from error
    if not isinstance(results, dict):
        raise OverbenchError(f"{found[0]}: expected a JSON object, got a {type(results).__name__}.")
    return found[0], results


def labeller_of(filter_config: Mapping[str, Any], versions: Mapping[str, Any]) -> str | None:
    """Who labelled, from a task's filter and metadata; None where they don't say.

    The same names as :func:`overbench_tasks.labellers.by_name` gives.
    """
    function = filter_config["filter"][-1]["function"]
    if function == "overbench_judge":
        kinds = ("mode", "model", "version")
        found = [versions.get(f"overbench_judge_{kind}") for kind in kinds]
        return " ".join(map(str, found)) if all(found) else None
    if function == "overbench_classifier":
        model = versions.get("overbench_classifier")
        return f"classifier:{model}" if model else None
    rules = versions.get("overbench_rules_version")
    return f"rules {rules}" if rules else None


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
            [str(log.file), log.filter],
        )
        problem = connection.execute(
            "SELECT 1 FROM replies "
            "WHERE prompt IS NULL OR label IS NULL OR NOT list_contains(?, label) LIMIT 1",
            [list(LABELS)],
        ).fetchall()
    except duckdb.Error as error:
        _explain(log.file, error)
    if problem:
        _explain(log.file, None)


def _explain(file: Path, error: Exception | None) -> None:
    """Find the line that DuckDB stumbled over, and say what is wrong with it."""
    try:
        for _ in read_rows(file, Columns()):
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
    processes = workers if log.file.stat().st_size > WORTH_A_POOL else 1
    try:
        for _, labels in in_order(_labels, _reply_chunks(log.file), processes):
            yield labels
    except OverbenchError as error:
        raise OverbenchError(str(error)) from error


def _reply_chunks(file: Path) -> Iterator[list[Pair]]:
    pairs: list[Pair] = []
    for row in read_rows(file, Columns()):
        pairs.extend(row.pairs())
        if len(pairs) >= _CHUNK:
            yield pairs
            pairs = []
    yield pairs


def _labels(pairs: list[Pair]) -> list[tuple[str, str]]:
    verdicts = label_by_rules(pairs)
    return [(str(prompt), verdict.label) for (prompt, _), verdict in zip(pairs, verdicts, strict=True)]
