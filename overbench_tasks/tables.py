"""Tables in files: the one reader of JSONL, CSV and Parquet, and the one way to write a file whole."""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from overbench_tasks.errors import OverbenchError

csv.field_size_limit(1 << 30)  # replies can be longer than the csv module's 128 KiB


@contextmanager
def whole_file(file: Path, *, sync: bool = False) -> Iterator[IO[str]]:
    """A text file in UTF-8 that takes its place whole when the block ends, or not at all.

    Args:
        file: its folder is made where it is missing; what is there is replaced.
        sync: wait until the disk has it.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    partial = file.with_name(f"{file.name}.partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as out:
            yield out
            if sync:
                out.flush()
                os.fsync(out.fileno())
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def matching_files(patterns: Sequence[str]) -> list[Path]:
    """The files that paths and globs name, each once: in the order of the patterns, of a glob sorted.

    A path is taken as it is, whether or not there is a file; ``**`` in a glob means any folders.

    Raises:
        OverbenchError: a glob that matches no file.
    """
    files: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern).expanduser()
        if path.exists() or not glob.has_magic(pattern):
            files[path] = None
            continue
        matches = map(Path, glob.glob(str(path), recursive=True))  # noqa: PTH207 - which takes hidden ones too
        if not (found := sorted(match for match in matches if match.is_file())):
            raise OverbenchError(f"Expected files that match {pattern}, found none. Check the pattern.")
        files |= dict.fromkeys(found)
    return list(files)


def file_kind(path: Path, accepted: tuple[str, ...] = (".jsonl", ".csv")) -> str:
    """The suffix of a file without ``.gz``: one of ``accepted``.

    Raises:
        OverbenchError: there is no such file, or it is of another kind.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing"
        raise OverbenchError(f"Expected a file at {path}, found {what} there. Check the path.")
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if kind not in accepted:
        raise OverbenchError(
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
        raise OverbenchError(f"{path}: not readable as gzip ({error}). Is the file complete?") from error


def parse_json(line: bytes, where: str) -> dict[str, Any]:
    """One JSON object.

    Raises:
        OverbenchError: the line is something else.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise OverbenchError(
            f"{where}: expected one JSON object per line, could not read it: {error}. "
            "Was the file cut off while it was written?"
        ) from error
    if not isinstance(row, dict):
        raise OverbenchError(f"{where}: expected a JSON object, got a {type(row).__name__}.")
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
                raise OverbenchError(
                    f"{path}, line {reader.line_num}: {len(fields)} fields, but the header has {width}. "
                    "Mend the row."
                )
            yield reader.line_num, fields
    except (csv.Error, UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise OverbenchError(
            f"{path}, after line {reader.line_num}: not readable as CSV in UTF-8: {error}."
        ) from error
    finally:
        text.detach()  # or it would close the stream, which is the caller's


def read_table(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """("file, line 3", row by column) of a JSONL, CSV or Parquet file, one row at a time.

    Raises:
        OverbenchError: the file cannot be read.
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
        raise OverbenchError(f"{path}: not readable as Parquet ({error}). Is the file complete?") from error
