"""Reads prompts from files and from the hub row by row, whatever a row holds.

A row that cannot be used is dropped for a reason that is counted, and the next one is read: a source
of many thousand rows should not fail for one. Only a source that cannot be read at all is an error.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.tables import opened

COLUMNS: Final = (
    "prompt",
    "question",
    "instruction",
    "text",
    "query",
    "chosen",
    "messages",
    "conversations",
    "conversation",
)
"""Where a prompt is looked for, in this order, unless a column is named."""

SUFFIXES: Final = (".jsonl", ".csv", ".parquet", ".txt")


class SeedError(OverbenchError):
    """Seeds cannot be read or parted. The message says what was expected, what came and what to do."""


class UnusableRowError(ValueError):
    """One row gives no prompt; the text is its reason."""


@dataclass(frozen=True, slots=True)
class HubSet:
    """A set on the Hugging Face hub.

    Attributes:
        hub_id: owner and name.
        split: the part that is read.
        column: where its prompts are.
        data_dir, config: whichever tells its parts from each other.
        default_limit: prompts taken from it where no limit is set.
    """

    hub_id: str
    split: str
    column: str
    data_dir: str | None = None
    config: str | None = None
    default_limit: int = 20_000


HUB_SETS: Final[dict[str, HubSet]] = {
    "hh-rlhf": HubSet("Anthropic/hh-rlhf", "train", "chosen", data_dir="harmless-base"),
    "toxigen": HubSet("toxigen/toxigen-data", "train", "generation", config="train"),
}
"""The two sources of Pu et al. 2025, section 3.1. The paper does not say how the two were mixed, nor which
part of ToxiGen it took; here it is halves, and ToxiGen's statements, one by one."""


def rows(source: str, column: str | None, revision: str | None) -> Iterator[object]:
    """What each row of a source holds in its prompt column: any type; an :class:`UnusableRowError` for none.

    Args:
        source: one of :data:`HUB_SETS`, or the path of a file that ends in one of :data:`SUFFIXES`, with
            or without ``.gz``.
        column: of a file; None: the first of :data:`COLUMNS` that it has. Text files have none: each
            line is a prompt.
        revision: of a hub set: a branch, tag or commit; None: the newest.

    Raises:
        SeedError: the source cannot be read, or has no such column.
    """
    if source in HUB_SETS:
        yield from _hub_rows(source, revision)
        return
    path = Path(source).expanduser()
    kind = _kind(path)
    try:
        if kind == ".parquet":
            yield from _parquet_rows(path, column)
            return
        with opened(path) as (stream, _):
            if kind == ".txt":
                yield from (line.rstrip("\r\n") for line in _lines(stream))
            else:
                records = _json_records if kind == ".jsonl" else _csv_records
                yield from _column_values(path, records(stream), column)
    except (OSError, EOFError, zlib.error) as error:  # gzip.BadGzipFile is an OSError
        raise SeedError(
            f"Could not read the seeds in {path} to the end ({error}). Is the file complete and readable?"
        ) from error


def prompt_of(value: object, max_chars: int) -> str:
    """The prompt that a row's value holds, verbatim but for white space around it.

    Text in HH-RLHF's form ("\\n\\nHuman: ...\\n\\nAssistant: ...") gives its first human turn, a list of
    chat messages (``role`` and ``content``, or ``from`` and ``value``) the first one by the user.
    Markup, template syntax and marks of writing direction are text like any other.

    Raises:
        UnusableRowError: see :data:`generators.seeds.seeds.DROP_REASONS`.
    """
    if isinstance(value, UnusableRowError):
        raise value
    if isinstance(value, list):
        value = _first_user_message(value)
    if value is None:
        raise UnusableRowError("empty")
    if not isinstance(value, str):
        raise UnusableRowError("not_text")
    text = _first_human_turn(value).strip()
    if not text:
        raise UnusableRowError("empty")
    if len(text) > max_chars:
        raise UnusableRowError("too_long")
    for char in "" if text.isprintable() else text:
        if not char.isprintable() and char not in "\t\n\r":
            kind = unicodedata.category(char)
            if kind == "Cs":
                raise UnusableRowError("not_unicode")
            if kind == "Cc":
                raise UnusableRowError("control_characters")
    return text


def _first_human_turn(text: str) -> str:
    start = text[:16].lstrip()
    if not start.startswith("Human:"):
        return text
    begin = text.index("Human:") + len("Human:")
    ends = [end for turn in ("\n\nAssistant:", "\n\nHuman:") if (end := text.find(turn, begin)) >= 0]
    return text[begin : min(ends, default=None)]


def _first_user_message(messages: list[Any]) -> object:
    for message in messages:
        if not isinstance(message, dict):
            continue
        if message.get("role", message.get("from")) in ("user", "human"):
            content = message.get("content", message.get("value"))
            if isinstance(content, list):  # parts: text, images
                content = "\n".join(
                    part["text"]
                    for part in content
                    if isinstance(part, dict) and isinstance(part.get("text"), str)
                )
            return content
    raise UnusableRowError("no_user_turn")


def _kind(path: Path) -> str:
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing"
        raise SeedError(
            f"Expected seed prompts at {path}, found {what} there. Name a file that ends in "
            f"{', '.join(SUFFIXES)} (or these and .gz), or one of {', '.join(HUB_SETS)}."
        )
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if kind not in SUFFIXES:
        raise SeedError(
            f"Expected {path.name} to end in one of {', '.join(SUFFIXES)}, with or without .gz, got "
            f"{kind or 'no suffix'!r}. Convert or rename the file."
        )
    return kind


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Lines of text, without a byte order mark. Bytes that are not UTF-8 become lone surrogates.

    Lines end at newlines only: others, such as U+2028, may stand inside a JSON string.
    """
    for number, line in enumerate(stream):
        yield line.decode("utf-8-sig" if number == 0 else "utf-8", "surrogateescape")


def _json_records(stream: IO[bytes]) -> Iterator[object]:
    for line in _lines(stream):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                yield UnusableRowError("unreadable")


def _csv_records(stream: IO[bytes]) -> Iterator[object]:
    reader = csv.reader(_lines(stream))  # replies.py, imported above, lifts the limit on a field's size
    header: list[str] | None = None
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield UnusableRowError("unreadable")
            continue
        if not fields:
            continue
        if header is None:
            header = fields
        elif len(fields) == len(header):
            yield dict(zip(header, fields, strict=True))
        else:
            yield UnusableRowError("unreadable")


def _column_values(path: Path, records: Iterator[object], column: str | None) -> Iterator[object]:
    """Each record's value; the column is found in the first record that has one."""
    seen: dict[str, None] = {}
    found = column
    used = False
    for record in records:
        if isinstance(record, str | UnusableRowError):  # a JSON string is a prompt, too
            used = used or isinstance(record, str)
            yield record
            continue
        if not isinstance(record, dict):
            yield UnusableRowError("unreadable")
            continue
        if not used:
            seen.update(dict.fromkeys(list(record)[:20]))
        found = found or next((name for name in COLUMNS if name in record), None)
        if found is None or found not in record:
            yield UnusableRowError("no_column")
        else:
            used = True
            yield record[found]
    if seen and not used:
        raise _no_column(str(path), column, list(seen))


def _no_column(where: str, column: str | None, there: list[str]) -> SeedError:
    wanted = f"a column {column!r}" if column else f"one of the columns {', '.join(COLUMNS)}"
    return SeedError(
        f"Expected {wanted} in {where}, found {', '.join(map(repr, there[:20])) or 'none at all'}. Name the "
        "column that holds the prompts with the setting 'column'."
    )


def _parquet_rows(path: Path, column: str | None) -> Iterator[object]:
    import pyarrow
    import pyarrow.parquet

    source: Any = path
    if path.suffix == ".gz":
        with gzip.open(path) as stream:
            source = io.BytesIO(stream.read())
    try:
        file = pyarrow.parquet.ParquetFile(source)
        there = file.schema_arrow.names
        name = column or next((name for name in COLUMNS if name in there), None)
        if name is None or name not in there:
            raise _no_column(str(path), column, there)
        kind = file.schema_arrow.field(name).type
        text = pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)
        for batch in file.iter_batches(batch_size=1000, columns=[name]):
            values = batch.column(0)
            if text:  # as bytes, so that one value that is no UTF-8 does not spoil the rest
                values = values.cast(pyarrow.large_binary())
            for value in values:
                plain = value.as_py()
                yield plain.decode("utf-8", "surrogateescape") if text and plain is not None else plain
    except (pyarrow.ArrowInvalid, pyarrow.ArrowIOError, UnicodeDecodeError) as error:
        raise SeedError(f"{path}: not readable as Parquet ({error}). Is the file complete?") from error


def _hub_rows(source: str, revision: str | None) -> Iterator[object]:
    hub = HUB_SETS[source]
    data = _load(source, hub, revision)
    if hub.column not in data.column_names:
        raise SeedError(
            f"Expected a column {hub.column!r} in {source} ({hub.hub_id}), found "
            f"{', '.join(map(repr, data.column_names))}: the set has changed. Set an older revision of it."
        )
    for row in data.select_columns([hub.column]):
        yield row[hub.column]


def _load(source: str, hub: HubSet, revision: str | None) -> Any:
    import datasets

    try:
        return datasets.load_dataset(
            hub.hub_id, hub.config, data_dir=hub.data_dir, split=hub.split, revision=revision
        )
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise SeedError(
            f"Could not load {source} ({hub.hub_id}) from the Hugging Face hub: {str(error).rstrip('.')}. "
            "Check the network; where the hub asks for it, accept the set's conditions there and log in with "
            "`hf auth login`. Offline, download the set elsewhere and name the file in place of "
            f"{source!r}."
        ) from error
