"""Replies of targets on file: a line each, on the disk as soon as it came."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generators.targets.target import Asked
from overbench_tasks.errors import OverbenchError
from overbench_tasks.providers.model_reply import ModelReply, settled
from overbench_tasks.records import Verdict
from overbench_tasks.tables import read_records
from overbench_tasks.text import encodable


class ReplyFile:
    """The replies of all targets, a JSON line each, only ever appended to.

    Args:
        file: made with the first reply. A last line that was cut off by a kill is passed over.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rows: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        if file.is_file():
            for _, row in read_records(file, on_bad_row=lambda error: None):
                if isinstance(row, dict) and {"target", "decoding", "prompt_id", "reply"} <= row.keys():
                    self._rows[row["target"], row["decoding"], row["prompt_id"]] = row

    def replies(self, target: Asked) -> dict[str, tuple[str, Verdict | None]]:
        """By prompt id the reply, and what its provider's word alone makes of it."""
        return {
            key: (row["reply"], Verdict.from_json(row["verdict"]) if row.get("verdict") else None)
            for (name, decoding, key), row in self._rows.items()
            if (name, decoding) == (target.name, target.decoding)
        }

    def add(self, target: Asked, replies: Mapping[str, str]) -> None:
        """Append the replies by prompt id; they are on the disk when this returns.

        Raises:
            OverbenchError: the file can't be written.
        """
        rows = []
        for key, reply in replies.items():
            said = settled(reply) if isinstance(reply, ModelReply) else None
            verdict = said.as_json() if said else None
            named: dict[str, Any] = {"target": target.name, "decoding": target.decoding, "prompt_id": key}
            rows.append({**named, "reply": encodable(str(reply)), "verdict": verdict})
        try:
            with self._file.open("a+b") as out:
                size = out.seek(0, os.SEEK_END)
                if size and out.seek(size - 1) >= 0 and out.read(1) != b"\n":
                    out.write(b"\n")
                out.write("".join(json.dumps(row) + "\n" for row in rows).encode())
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise OverbenchError(
                f"{self._file} can't be written: {error}. Make room, then start the same command again."
            ) from error
        self._rows |= {(row["target"], row["decoding"], row["prompt_id"]): row for row in rows}
