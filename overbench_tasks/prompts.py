"""Reads a file of prompts, JSONL, CSV or Parquet, and says exactly what is wrong with a bad one.

A bare ``prompt`` column is enough, so the OVERBENCH authors' own download works as it is.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import logging
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import CATEGORIES, Category

logger = logging.getLogger(__name__)

MAX_PROMPT_CHARS = 20_000
"""A longer "prompt" is a wrong column or a document, and would be truncated by most models."""

SUFFIXES = (".jsonl", ".csv", ".parquet")

Row = dict[str, Any]


class PromptSourceError(OverbenchError):
    """A source of prompts cannot be used. The message says what was expected, what came, what to do."""


def prompt_id(prompt: str) -> str:
    """A stable id from the text alone: case, Unicode form and white space do not change it.

    Returns:
        ``"ob-"`` and the first 12 hex digits of the SHA-256 of :func:`normalised`.
    """
    return "ob-" + hashlib.sha256(normalised(prompt).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def normalised(prompt: str) -> str:
    """The prompt as compared for equality: NFKC, case folded, white space collapsed, stripped."""
    return " ".join(unicodedata.normalize("NFKC", prompt).casefold().split())


def read_prompts(path: str | Path) -> list[Row]:
    """All prompts of one file, checked.

    Args:
        path: a ``.jsonl``, ``.csv`` or ``.parquet`` file in UTF-8 with a ``prompt`` column and,
            optionally, ``id``, ``category`` (one of the five, as slug or title), ``features`` (a
            list; in CSV separated by ``;``) and any other columns, which are not read.

    Returns:
        one row per prompt in file order: ``id`` (the file's, or :func:`prompt_id`), ``prompt``
        (verbatim), ``category`` (a :data:`~overbench_tasks.records.Category` or None),
        ``features`` (list of str), ``source`` (``file name:row``, rows counted from 1). Without an
        id column, later copies of a prompt are dropped with one warning.

    Raises:
        PromptSourceError: missing, empty, unreadable or of another type; not UTF-8; no prompt
            column; an empty or overlong prompt; a duplicate id; an unknown category.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing"
        raise PromptSourceError(f"Expected a prompt file at {path}, found {what} there. Check the path.")
    if path.suffix not in SUFFIXES:
        raise PromptSourceError(
            f"Expected {path.name} to end in one of {', '.join(SUFFIXES)}, "
            f"got {path.suffix or 'no suffix'!r}. Convert or rename the file."
        )
    if path.stat().st_size == 0:
        raise PromptSourceError(f"{path} is empty. Expected at least one row with a 'prompt'.")
    reader = {".jsonl": _jsonl_rows, ".csv": _csv_rows, ".parquet": _parquet_rows}[path.suffix]
    rows = _checked(path, reader(path))
    if not rows:
        raise PromptSourceError(f"{path} has no rows. Expected at least one row with a 'prompt'.")
    return rows


def _checked(path: Path, raw_rows: Iterator[tuple[int, Row]]) -> list[Row]:
    seen: dict[str, int] = {}
    copies = 0
    rows = []
    for number, raw in raw_rows:
        where = f"{path}, row {number}"
        prompt = _prompt(raw, where)
        given = raw.get("id")
        identity = prompt_id(prompt) if given in (None, "") else str(given)
        if identity in seen:
            if given in (None, ""):
                copies += 1
                continue
            raise PromptSourceError(
                f"{where}: id {identity!r} was already used in row {seen[identity]}. Ids must be unique; "
                "mend the file or drop its id column (ids are then made from the text)."
            )
        seen[identity] = number
        rows.append(
            {
                "id": identity,
                "prompt": prompt,
                "category": _category(raw.get("category"), where),
                "features": _features(raw.get("features"), where),
                "source": f"{path.name}:{number}",
            }
        )
    if copies:
        logger.warning("%s: dropped %d repeated prompts, kept %d.", path, copies, len(rows))
    return rows


def _prompt(raw: Row, where: str) -> str:
    if "prompt" not in raw:
        raise PromptSourceError(
            f"{where}: expected a 'prompt' column, found {', '.join(map(repr, raw)) or 'none at all'}. "
            "Rename the column that holds the prompts."
        )
    prompt = raw["prompt"]
    if not isinstance(prompt, str) or not prompt.strip():
        raise PromptSourceError(
            f"{where}: expected a prompt with text in it, got {prompt!r}. Fill or remove the row."
        )
    if len(prompt) > MAX_PROMPT_CHARS:
        raise PromptSourceError(
            f"{where}: the prompt has {len(prompt):,} characters, more than the limit of "
            f"{MAX_PROMPT_CHARS:,}. Check that 'prompt' is the right column, or shorten or remove the row."
        )
    return prompt


def _category(value: object, where: str) -> Category | None:
    if value in (None, ""):
        return None
    slug = re.sub(r"[\s_&-]+", "_", str(value).strip().casefold().replace("&", " and "))
    if slug not in CATEGORIES:
        raise PromptSourceError(
            f"{where}: unknown category {value!r}. Expected one of {', '.join(CATEGORIES)}, or none. "
            "Map it to one of these or drop the column."
        )
    return slug


def _features(value: object, where: str) -> list[str]:
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [word.strip() for word in value.split(";") if word.strip()]
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return value
    raise PromptSourceError(f"{where}: expected 'features' to be a list of words, got {value!r}.")


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PromptSourceError(
            f"{path}, line {line}: byte {data[error.start]:#04x} at position {error.start:,} is not UTF-8. "
            "Save the file as UTF-8."
        ) from error


def _jsonl_rows(path: Path) -> Iterator[tuple[int, Row]]:
    # Split at newlines only: str.splitlines would also cut at U+2028 inside a JSON string.
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise PromptSourceError(
                f"{path}, row {number}: expected one JSON object per line, could not read it: {error}."
            ) from error
        if not isinstance(row, dict):
            raise PromptSourceError(
                f'{path}, row {number}: expected a JSON object such as {{"prompt": "..."}}, '
                f"got a {type(row).__name__}."
            )
        yield number, row


def _csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    # The csv module refuses fields above 128 KiB with a message of its own; ours says more.
    csv.field_size_limit(1 << 30)
    reader = csv.DictReader(io.StringIO(_text(path), newline=""))
    try:
        for number, row in enumerate(reader, start=1):
            yield number, {key: value for key, value in row.items() if key is not None}
    except csv.Error as error:
        raise PromptSourceError(f"{path}, line {reader.line_num}: not readable as CSV: {error}.") from error


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path)
        columns = [c for c in ("id", "prompt", "category", "features") if c in table.schema_arrow.names]
        if "prompt" not in columns:
            columns = table.schema_arrow.names
        number = 0
        for batch in table.iter_batches(columns=columns):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (pyarrow.ArrowInvalid, pyarrow.ArrowIOError, UnicodeDecodeError) as error:
        raise PromptSourceError(
            f"{path}: not readable as Parquet ({error}). Is the file complete?"
        ) from error
