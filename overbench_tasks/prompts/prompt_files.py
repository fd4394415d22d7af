"""Reads a file of prompts, JSONL, CSV or Parquet, and says exactly what is wrong with a bad one.

A bare ``prompt`` column is enough, so the OVERBENCH authors' own download works as it is.
"""

from __future__ import annotations

import hashlib
import logging
import re
import unicodedata
from pathlib import Path
from typing import Any, Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import CATEGORIES, Category
from overbench_tasks.tables import read_table

logger = logging.getLogger(__name__)

MAX_PROMPT_CHARS = 20_000
"""A longer "prompt" is a wrong column or a document, and would be truncated by most models."""

COLUMNS: Final = ("id", "prompt", "category", "features")
"""What is read of a file of prompts."""

Row = dict[str, Any]


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
        path: a ``.jsonl``, ``.csv`` or ``.parquet`` file in UTF-8, also with ``.gz``, with a ``prompt``
            column and, optionally, ``id``, ``category`` (one of the five, as slug or title), ``features`` (a
            list; in CSV separated by ``;``) and any other columns, which are not read.

    Returns:
        one row per prompt in file order: ``id`` (the file's, or :func:`prompt_id`), ``prompt``
        (verbatim), ``category`` (a :data:`~overbench_tasks.records.Category` or None),
        ``features`` (list of str), ``source`` (``file name:row``, rows counted from 1). Without an
        id column, later copies of a prompt are dropped with one warning.

    Raises:
        OverbenchError: missing, empty, unreadable or of another type; not UTF-8; no prompt
            column; an empty or overlong prompt; a duplicate id; an unknown category.
    """
    path = Path(path).expanduser()
    used: dict[str, str] = {}
    copies = 0
    rows = []
    for number, (where, raw) in enumerate(read_table(path, COLUMNS), start=1):
        prompt = _prompt(raw, where)
        given = raw.get("id")
        identity = prompt_id(prompt) if given in (None, "") else str(given)
        if identity in used:
            if given in (None, ""):
                copies += 1
                continue
            raise OverbenchError(
                f"{where}: id {identity!r} was already used in {used[identity]}. Ids must be unique; "
                "mend the file or drop its id column (ids are then made from the text)."
            )
        used[identity] = where
        rows.append(
            {
                "id": identity,
                "prompt": prompt,
                "category": _category(raw.get("category"), where),
                "features": _features(raw.get("features"), where),
                "source": f"{path.name}:{number}",
            }
        )
    if not rows:
        raise OverbenchError(f"{path} has no rows. Expected at least one row with a 'prompt'.")
    if copies:
        logger.warning("%s: dropped %d repeated prompts, kept %d.", path, copies, len(rows))
    return rows


def _prompt(raw: Row, where: str) -> str:
    if "prompt" not in raw:
        raise OverbenchError(
            f"{where}: expected a 'prompt' column, found {', '.join(map(repr, raw)) or 'none at all'}. "
            "Rename the column that holds the prompts."
        )
    prompt = raw["prompt"]
    if not isinstance(prompt, str) or not prompt.strip():
        raise OverbenchError(
            f"{where}: expected a prompt with text in it, got {prompt!r}. Fill or remove the row."
        )
    if len(prompt) > MAX_PROMPT_CHARS:
        raise OverbenchError(
            f"{where}: the prompt has {len(prompt):,} characters, more than the limit of "
            f"{MAX_PROMPT_CHARS:,}. Check that 'prompt' is the right column, or shorten or remove the row."
        )
    return prompt


def _category(value: object, where: str) -> Category | None:
    if value in (None, ""):
        return None
    slug = re.sub(r"[\s_&-]+", "_", str(value).strip().casefold().replace("&", " and "))
    if slug not in CATEGORIES:
        raise OverbenchError(
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
    raise OverbenchError(f"{where}: expected 'features' to be a list of words, got {value!r}.")
