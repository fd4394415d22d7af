"""Reads files of replies: lm-eval's sample logs of our tasks, and any table with a reply column."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers import Pair
from overbench_tasks.records import LABELS, Label, Verdict
from overbench_tasks.tables import read_table


@dataclass(frozen=True, slots=True)
class Columns:
    """Where a row keeps its texts. Without ``reply``, rows are lm-eval's samples of our tasks."""

    reply: str | None = None
    prompt: str | None = None

    def __post_init__(self) -> None:
        if self.prompt is not None and self.reply is None:
            raise OverbenchError("--prompt without --reply. Name the column of the replies too.")


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
        OverbenchError: not a sample of one of our tasks, or a named column is missing or no text.
    """
    if columns.reply is None:
        return _read_sample(raw, where)
    reply = _column(raw, columns.reply, where)
    prompt = None if columns.prompt is None else _column(raw, columns.prompt, where)
    return Row(str(raw.get("id") or ""), prompt, (reply,))


def _column(raw: Mapping[str, Any], name: str, where: str) -> str:
    if name not in raw:
        raise OverbenchError(f"{where}: no column {name!r}. The row has {', '.join(map(repr, raw))}.")
    value = raw[name]
    if value is None:
        return ""  # a reply that never came
    if not isinstance(value, str):
        raise OverbenchError(f"{where}: expected text in {name!r}, got {type(value).__name__}.")
    return value


def _read_sample(raw: Mapping[str, Any], where: str) -> Row:
    missing = [key for key in ("doc", "resps", "filtered_resps", "filter") if key not in raw]
    if missing:
        raise OverbenchError(
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
        raise OverbenchError(
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


def read_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """All rows of a file; of a sample log with several filters, those of the first filter.

    Raises:
        OverbenchError: as :func:`read_table` and :func:`read_row`.
    """
    first: str | None = None
    for where, raw in read_table(path):
        row = read_row(raw, columns, where)
        first = row.filter if first is None else first
        if row.filter == first:
            yield row
