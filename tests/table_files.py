"""Writes the same rows as any kind of file that is read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet


def write_table(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """A file of the kind that its name says: .jsonl, .csv, .parquet or .txt (prompts alone), also .gz."""
    rows = list(rows)
    kind = path.suffixes[0]
    if kind == ".parquet":
        stream = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), stream)
        data = stream.getvalue()
    elif kind == ".csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        data = text.getvalue().encode()
    else:
        lines = (row["prompt"] if kind == ".txt" else json.dumps(row, ensure_ascii=False) for row in rows)
        # A lone surrogate becomes its JSON escape.
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
