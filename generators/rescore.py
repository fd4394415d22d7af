"""``overbench rescore``: label saved replies again, which lm-eval itself cannot.

Every row is written as it came, with the new verdicts behind it, so what a file's rows were before
can be read off the output itself. That makes a killed run resumable without a record of its own:
the output so far is checked against the input, byte by byte, up to its last whole chunk, and the
work goes on there. Chunks are always the same rows, so the output equals an undisturbed run's, also
where a detector's last digits depend on which replies share a batch.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import signal
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from generators.replies import (
    Columns,
    ReplyFileError,
    Row,
    csv_records,
    file_kind,
    json_lines,
    opened,
    parse_json,
    read_row,
)
from generators.tally import Tally
from overbench_tasks.labellers import Labeller, by_name, label_by_rules
from overbench_tasks.records import Label, Verdict

CHUNK_ROWS: Final = 500
CHUNK_BYTES: Final = 4_000_000
WORTH_A_POOL: Final = 20_000_000
"""Bytes of input below which starting processes takes longer than it saves."""

Report = dict[str, Tally]
"""Per lm-eval filter of the log ("" for other files)."""


@dataclass(frozen=True)
class Rescored:
    """Where the rows went, who labelled them, and what came out."""

    file: Path
    labeller: str
    report: Report


@dataclass(frozen=True)
class Job:
    """One file to label again.

    Attributes:
        source: JSONL or CSV, also with ``.gz``.
        columns: see :class:`~generators.replies.Columns`.
        column: the name of what is added: in JSONL an object with ``labeller`` and ``verdicts``,
            in CSV the columns ``<column>_label``, ``_reason``, ``_by`` and ``_labeller``.
        labeller: the labeller's name.
        header: the header of a CSV file.
    """

    source: Path
    columns: Columns
    column: str
    labeller: str
    header: tuple[str, ...] = ()

    def row(self, record: Any, number: int) -> Row:
        """Read one record of the source."""
        where = f"{self.source}, line {number}"
        raw = dict(zip(self.header, record, strict=True)) if self.header else parse_json(record, where)
        if self.column in raw:
            raise ReplyFileError(
                f"{where}: there is a {self.column!r} already. Rescore the original file, or name the new "
                "labels with --column."
            )
        return read_row(raw, self.columns, where)

    def body(self, record: Any) -> bytes:
        """The record as it stands in the output, before what is added."""
        return _csv_line(record) if self.header else cast("bytes", record[:-1])

    def tail(self, verdicts: Sequence[Verdict]) -> bytes:
        """What is added to a record, its end included; one line."""
        if self.header:
            (v,) = verdicts
            added = [v.label, " ".join(v.reason.split()), v.by, self.labeller]
            return b"," + _csv_line(added) + b"\r\n"
        value = {"labeller": self.labeller, "verdicts": [asdict(verdict) for verdict in verdicts]}
        # A lone surrogate becomes its JSON escape.
        text = f", {json.dumps(self.column)}: {json.dumps(value, ensure_ascii=False)}}}\n"
        return text.encode("utf-8", "backslashreplace")

    def read_tail(self, tail: bytes) -> tuple[str, list[Verdict]]:
        """(labeller, verdicts) of a tail; the inverse of :meth:`tail`.

        Raises:
            ValueError, KeyError, TypeError: it is no tail of this job's.
        """
        if self.header:
            ((_, label, reason, by, labeller),) = csv.reader([tail.decode()])
            return labeller, [Verdict(cast("Label", label), reason, by)]
        value = json.loads(b"{" + tail.lstrip(b","))[self.column]
        return value["labeller"], [Verdict(**verdict) for verdict in value["verdicts"]]


def _csv_line(fields: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(fields)
    return text.getvalue()[:-2].encode("utf-8", "backslashreplace")


Chunk = list[tuple[int, Any]]
"""(line number, record) of consecutive rows."""


def _chunks(records: Iterator[tuple[int, Any]]) -> Iterator[Chunk]:
    """The same chunks from the same file, whoever reads it."""
    chunk: Chunk = []
    size = 0
    for number, record in records:
        chunk.append((number, record))
        size += len(record) if isinstance(record, bytes) else sum(map(len, record))
        if len(chunk) == CHUNK_ROWS or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def label_chunk(job: Job, chunk: Chunk, label: Callable[..., list[Verdict]]) -> tuple[list[bytes], Report]:
    """(tails, tallies) of a chunk's rows."""
    rows = [job.row(record, number) for number, record in chunk]
    verdicts = iter(label([pair for row in rows for pair in row.pairs()]))
    found = [[next(verdicts) for _ in row.replies] for row in rows]
    return [job.tail(new) for new in found], _tally(rows, found)


def label_chunk_by_rules(job: Job, chunk: Chunk) -> tuple[list[bytes], Report]:
    """:func:`label_chunk` for worker processes, which cannot be handed a labeller."""
    return label_chunk(job, chunk, label_by_rules)


def _tally(rows: Sequence[Row], verdicts: Sequence[Sequence[Verdict]]) -> Report:
    report: Report = defaultdict(Tally)
    for row, new in zip(rows, verdicts, strict=True):
        report[row.filter].add(row.prompt, row.replies, row.logged, new)
    return dict(report)


def _merge(total: Report, part: Report) -> None:
    for name, tally in part.items():
        total.setdefault(name, Tally()).merge(tally)


def output_file(source: Path, by: str, folder: Path | None) -> Path:
    """Where the rows of ``source`` go: ``rescored_<by>_<name>``, not zipped."""
    name = source.name.removesuffix(".gz")
    return (folder or source.parent) / f"rescored_{by.replace('-', '_')}_{name}"


def rescore(
    source: Path,
    by: str,
    settings: Mapping[str, Any] | None = None,
    *,
    columns: Columns | None = None,
    column: str | None = None,
    output_path: Path | None = None,
    overwrite: bool = False,
    workers: int = 2,
    progress: Callable[[int, int], None] = lambda position, size: None,
) -> Rescored:
    """Label all replies of a file again and write its rows with the new verdicts.

    Constant memory. May be killed at any moment and called again; an output that is already
    complete is checked and reported, not made again.

    Args:
        source: see :class:`Job`.
        by, settings: see :func:`~overbench_tasks.labellers.by_name`.
        columns: where the texts are; None: ``source`` is a sample log of one of our tasks.
        column: see :class:`Job`; None: ``rescored_<by>``.
        output_path: the folder of the output, made if need be; None: beside ``source``.
        overwrite: start anew, whatever output there is.
        workers: processes for the rules. Other labellers have their own ways to be fast.
        progress: told the position in ``source`` and its size, in bytes on disk.

    Raises:
        LabellerError: the labeller cannot be used.
        ReplyFileError: a row cannot be used, or the output belongs to other rows or another
            labeller. Rows before it are written.
    """
    columns = columns or Columns()
    kind = file_kind(source)
    if kind == ".csv" and columns.reply is None:
        raise ReplyFileError(f"{source}: which column holds the replies? Name it with --reply COLUMN.")
    done = output_file(source, by, output_path)
    done.parent.mkdir(parents=True, exist_ok=True)
    part = done.with_name(f"{done.name}.part")
    if overwrite:
        part.unlink(missing_ok=True)
    elif done.exists():
        part = done
    report: Report = {}
    with by_name(by, settings) as labeller, opened(source) as (stream, raw), _appendable(part) as out:
        job = Job(source, columns, column or f"rescored_{by.replace('-', '_')}", labeller.name)
        if kind == ".csv":
            records: Iterator[tuple[int, Any]] = csv_records(stream, source)
            _, header = next(records, (0, []))
            job = Job(job.source, job.columns, job.column, job.labeller, tuple(header))
            _write_header(out, job, part)
        else:
            records = json_lines(stream, source)
        size = source.stat().st_size
        chunks = _chunks(records)
        for chunk in chunks:
            verified = _verified(out, job, chunk, part)
            if verified is None:
                chunks = itertools.chain([chunk], chunks)
                break
            _merge(report, verified)
            progress(raw.tell(), size)
        pool = workers if by == "rules" and size - raw.tell() > WORTH_A_POOL else 0
        for chunk, (tails, tallies) in _labelled(job, chunks, labeller, pool):
            out.write(
                b"".join(job.body(record) + tail for (_, record), tail in zip(chunk, tails, strict=True))
            )
            out.flush()
            _merge(report, tallies)
            progress(raw.tell(), size)
        if out.read(1):
            raise _foreign(part, source)
        os.fsync(out.fileno())
    part.replace(done)
    return Rescored(done, job.labeller, report)


def _appendable(path: Path) -> BinaryIO:
    path.touch()
    return path.open("r+b")


def _write_header(out: BinaryIO, job: Job, part: Path) -> None:
    added = [f"{job.column}_{name}" for name in ("label", "reason", "by", "labeller")]
    if clash := set(added) & set(job.header):
        raise ReplyFileError(
            f"{job.source}: there is a column {min(clash)!r} already. Name the new labels with --column."
        )
    header = _csv_line([*job.header, *added]) + b"\r\n"
    found = out.read(len(header))
    if found != header:
        if not header.startswith(found):
            raise _foreign(part, job.source)
        out.seek(0)
        out.write(header)


def _verified(out: BinaryIO, job: Job, chunk: Chunk, part: Path) -> Report | None:
    """The tallies of a chunk that stands whole at the position of ``out``, which moves behind it.

    None where only its beginning stands there: that is cut off.

    Raises:
        ReplyFileError: something else stands there.
    """
    start = out.tell()
    rows, found = [], []
    for number, record in chunk:
        body = job.body(record)
        written = out.read(len(body))
        tail = out.readline() if written == body else b""
        if not tail.endswith(b"\n"):
            if not body.startswith(written):
                raise _foreign(part, job.source)
            out.seek(start)
            out.truncate()
            return None
        try:
            labeller, verdicts = job.read_tail(tail)
        except (ValueError, KeyError, TypeError):
            raise _foreign(part, job.source) from None
        if labeller != job.labeller:
            raise ReplyFileError(
                f"{part} was labelled by {labeller}, this is {job.labeller}. Keep it by choosing another "
                "--output_path, or replace it with --overwrite."
            )
        rows.append(job.row(record, number))
        found.append(verdicts)
    return _tally(rows, found)


def _foreign(part: Path, source: Path) -> ReplyFileError:
    return ReplyFileError(
        f"{part} does not hold the rows of {source}. Keep it by choosing another --output_path, or replace "
        "it with --overwrite."
    )


def _labelled(
    job: Job, chunks: Iterator[Chunk], labeller: Labeller, workers: int
) -> Iterator[tuple[Chunk, tuple[list[bytes], Report]]]:
    """Each chunk with what :func:`label_chunk` gives, in order."""
    if workers < 2:
        for chunk in chunks:
            yield chunk, label_chunk(job, chunk, labeller.label)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker) as pool:
        # A window, because map would read the whole file ahead.
        waiting: deque[tuple[Chunk, Future[tuple[list[bytes], Report]]]] = deque()
        try:
            for chunk in chunks:
                waiting.append((chunk, pool.submit(label_chunk_by_rules, job, chunk)))
                if len(waiting) > 2 * workers:
                    oldest, future = waiting.popleft()
                    yield oldest, future.result()
            for oldest, future in waiting:
                yield oldest, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _prepare_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it: a killed parent closes no queue."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
    os._exit(1)
