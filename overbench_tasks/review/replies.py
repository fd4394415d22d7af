"""Reads files of replies: lm-eval's sample logs of our tasks, and any table with a reply column."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers import Pair
from overbench_tasks.records import LABELS, Label, Verdict

csv.field_size_limit(1 << 30)  # replies can be longer than the csv module's 128 KiB


class ReplyFileError(OverbenchError):
    """A file of replies cannot be used. The message names file and row, what came and what to do."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Where a row keeps its texts. Without ``reply``, rows are lm-eval's samples of our tasks."""

    reply: str | None = None
    prompt: str | None = None

    def __post_init__(self) -> None:
        if self.prompt is not None and self.reply is None:
            raise ReplyFileError("--prompt without --reply. Name the column of the replies too.")


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt with the replies to it.

    Attributes:
        id: the prompt's id in a sample log, else the row's own ``id``; "" where there is none.
        prompt: None where it is not known.
        replies: at least one; more than one where the run had repeats.
        logged: the verdicts that the sample log holds, one per reply; None for other files.
        filter: the lm-eval filter that gave them. A log holds every prompt once per filter.
    """

    id: str
    prompt: str | None
    replies: tuple[str, ...]
    logged: tuple[Verdict, ...] | None = None
    filter: str = ""

    def pairs(self) -> list[Pair]:
        return [(self.prompt, reply) for reply in self.replies]


def read_row(raw: Mapping[str, Any], columns: Columns, where: str) -> Row:
    """Read one row.

    Args:
        raw: the row by column.
        columns: where its texts are.
        where: file and row, for messages.

    Raises:
        ReplyFileError: not a sample of one of our tasks, or a named column is missing or no text.
    """
    if columns.reply is None:
        return _read_sample(raw, where)
    reply = _column(raw, columns.reply, where)
    prompt = None if columns.prompt is None else _column(raw, columns.prompt, where)
    return Row(str(raw.get("id") or ""), prompt, (reply,))


def _column(raw: Mapping[str, Any], name: str, where: str) -> str:
    if name not in raw:
        raise ReplyFileError(f"{where}: no column {name!r}. The row has {', '.join(map(repr, raw))}.")
    value = raw[name]
    if value is None:
        return ""  # a reply that never came
    if not isinstance(value, str):
        raise ReplyFileError(f"{where}: expected text in {name!r}, got {type(value).__name__}.")
    return value


def _read_sample(raw: Mapping[str, Any], where: str) -> Row:
    missing = [key for key in ("doc", "resps", "filtered_resps", "filter") if key not in raw]
    if missing:
        raise ReplyFileError(
            f"{where}: no sample of an lm-eval run, it has no {', '.join(missing)}. For other files name "
            "the columns: --reply COLUMN and, if there is one, --prompt COLUMN."
        )
    try:
        prompt, (replies,), (logged,) = raw["doc"]["prompt"], raw["resps"], raw["filtered_resps"]
        verdicts = tuple(map(_logged_verdict, logged))
        sound = isinstance(prompt, str) and all(isinstance(reply, str) for reply in replies)
        if not sound or not replies or len(verdicts) != len(replies):
            raise ValueError
    except (TypeError, ValueError, KeyError, RecursionError):
        raise ReplyFileError(
            f"{where}: a sample of another task, not of OVERBENCH: expected a prompt under 'doc' and one "
            "verdict per reply under 'filtered_resps'. Leave this file out."
        ) from None
    return Row(str(raw["doc"].get("id", "")), prompt, tuple(replies), verdicts, str(raw["filter"]))


def _logged_verdict(text: str) -> Verdict:
    verdict = json.loads(text)
    if verdict["label"] not in LABELS:
        raise ValueError(verdict["label"])
    return Verdict(
        cast("Label", verdict["label"]), str(verdict.get("reason", "")), str(verdict.get("by", ""))
    )


def file_kind(path: Path, accepted: tuple[str, ...] = (".jsonl", ".csv")) -> str:
    """The suffix of a file without ``.gz``: one of ``accepted``.

    Raises:
        ReplyFileError: there is no such file, or it is of another kind.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing"
        raise ReplyFileError(f"Expected a file of replies at {path}, found {what} there. Check the path.")
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if kind not in accepted:
        raise ReplyFileError(
            f"Expected {path.name} to end in one of {', '.join(accepted)}, got {kind or 'no suffix'!r}. "
            "Convert or rename the file."
        )
    return kind


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, IO[bytes]]]:
    """The bytes of a file, unzipped where it ends in ``.gz``, and the file itself (for its position)."""
    with path.open("rb") as raw:
        if path.suffix != ".gz":
            yield raw, raw
            return
        with gzip.GzipFile(fileobj=raw) as unzipped, io.BufferedReader(cast("Any", unzipped)) as stream:
            yield stream, raw


def json_lines(stream: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line without white space around it) of each line that is not blank."""
    try:
        for number, line in enumerate(stream, start=1):
            if line := line.strip():
                yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ReplyFileError(f"{path}: not readable as gzip ({error}). Is the file complete?") from error


def parse_json(line: bytes, where: str) -> dict[str, Any]:
    """One JSON object.

    Raises:
        ReplyFileError: the line is something else.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ReplyFileError(
            f"{where}: expected one JSON object per line, could not read it: {error}. "
            "Was the file cut off while it was written?"
        ) from error
    if not isinstance(row, dict):
        raise ReplyFileError(f"{where}: expected a JSON object, got a {type(row).__name__}.")
    return row


def csv_records(stream: BinaryIO, path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number on which the record ends, its fields); the first is the header."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.reader(text)
    width = None
    try:
        for fields in reader:
            if not fields:
                continue
            width = width or len(fields)
            if len(fields) != width:
                raise ReplyFileError(
                    f"{path}, line {reader.line_num}: {len(fields)} fields, but the header has {width}. "
                    "Mend the row."
                )
            yield reader.line_num, fields
    except (csv.Error, UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ReplyFileError(
            f"{path}, after line {reader.line_num}: not readable as CSV in UTF-8: {error}."
        ) from error
    finally:
        text.detach()  # or it would close the stream, which is the caller's


def read_table(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """("file, line 3", row by column) of a JSONL, CSV or Parquet file, one row at a time.

    Raises:
        ReplyFileError: the file cannot be read.
    """
    kind = file_kind(path, (".jsonl", ".csv", ".parquet"))
    if kind == ".parquet":
        yield from _parquet_rows(path)
        return
    with opened(path) as (stream, _):
        if kind == ".jsonl":
            for number, line in json_lines(stream, path):
                where = f"{path}, line {number}"
                yield where, parse_json(line, where)
            return
        records = csv_records(stream, path)
        _, header = next(records, (0, []))
        for number, fields in records:
            yield f"{path}, line {number}", dict(zip(header, fields, strict=True))


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow
    import pyarrow.parquet

    try:
        number = 0
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=1000):
            for row in batch.to_pylist():
                number += 1
                yield f"{path}, row {number}", row
    except (pyarrow.ArrowInvalid, pyarrow.ArrowIOError, UnicodeDecodeError) as error:
        raise ReplyFileError(f"{path}: not readable as Parquet ({error}). Is the file complete?") from error


def read_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """All rows of a file; of a sample log with several filters, those of the first filter.

    Raises:
        ReplyFileError: as :func:`read_table` and :func:`read_row`.
    """
    first: str | None = None
    for where, raw in read_table(path):
        row = read_row(raw, columns, where)
        first = row.filter if first is None else first
        if row.filter == first:
            yield row
