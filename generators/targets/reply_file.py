"""Replies of targets on file: a line each, on the disk as soon as it came; and the verdicts on them."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generators.targets.target import Asked
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.labeller import NO_VERDICT_YET, Labeller
from overbench_tasks.providers.model_reply import ModelReply, settled
from overbench_tasks.records import Verdict
from overbench_tasks.tables import read_records
from overbench_tasks.text import encodable


class ReplyFile:
    """The replies of all targets, a JSON line each, only ever appended to.

    Args:
        file: made with the first reply. A last line that was cut off by a kill is passed over, and so are
            requests that failed: the next start asks again.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._replies: defaultdict[tuple[str, str], dict[str, tuple[str, Verdict | None]]] = defaultdict(dict)
        if file.is_file():
            for _, row in read_records(file, on_bad_row=lambda error: None):
                if (
                    isinstance(row, dict)
                    and {"target", "decoding", "prompt_id", "reply"} <= row.keys()
                    and (row.get("verdict") or {}).get("reason") != "request_failed"
                ):
                    self._know(row)

    def _know(self, row: Mapping[str, Any]) -> None:
        verdict = Verdict.from_json(row["verdict"]) if row.get("verdict") else None
        self._replies[row["target"], row["decoding"]][row["prompt_id"]] = row["reply"], verdict

    def replies(self, target: Asked) -> Mapping[str, tuple[str, Verdict | None]]:
        """By prompt id the reply, and what its provider's word alone makes of it; what is added appears."""
        return self._replies[target.name, target.decoding]

    def verdicts(self, target: Asked, prompts: Mapping[str, str], labeller: Labeller) -> dict[str, Verdict]:
        """By prompt id what is to be made of its reply, which is there.

        Raises:
            OverbenchError: the labeller gave no verdict on some, or none yet.
        """
        replies = self.replies(target)
        unread = [key for key in prompts if replies[key][1] is None]
        read = iter(labeller.label([(prompts[key], replies[key][0]) for key in unread]))
        found = {key: replies[key][1] or next(read) for key in prompts}
        if lost := sum(verdict.reason in NO_VERDICT_YET for verdict in found.values()):
            labeller.check_complete()
            raise OverbenchError(
                f"The labeller gave no verdict on {lost:,} of {len(found):,} replies. The replies are kept: "
                "start the same command again to label the rest."
            )
        return found

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
        for row in rows:
            self._know(row)
