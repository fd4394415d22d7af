"""What targets say to the prompts that passed the gates: asked through lm-eval's backends, each once.

A reply is on file as soon as its chunk has come; a run that was killed asks for the rest only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from generators.targets.target import Asked
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers import Labeller
from overbench_tasks.providers.model_reply import ModelReply, settled
from overbench_tasks.records import Verdict
from overbench_tasks.tables import read_records
from overbench_tasks.text import encodable

NO_VERDICT = ("judge_error", "judge_unparseable")
"""A judge's outage is no label: the next start asks it again."""


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


def verdicts(
    target: Asked, prompts: Mapping[str, str], labeller: Labeller, kept: ReplyFile, chunk_size: int
) -> dict[str, Verdict]:
    """The verdict on the target's reply to each prompt, by prompt id. Asks what is not on file.

    Raises:
        OverbenchError: the target can't be asked, or the labeller gave no verdict on some replies; what
            came is kept.
    """
    # Longest first, as lm-eval itself does: a lack of memory shows at once.
    missing = sorted(prompts.keys() - kept.replies(target).keys(), key=lambda key: (-len(prompts[key]), key))
    done = len(prompts) - len(missing)
    with tqdm(desc=f"verify, {target.name}", total=len(prompts), initial=done, disable=None) as bar:
        for start in range(0, len(missing), chunk_size):
            chunk = missing[start : start + chunk_size]
            replies = target.replies([prompts[key] for key in chunk])
            kept.add(target, dict(zip(chunk, replies, strict=True)))
            bar.update(len(chunk))
    found = {key: kept.replies(target)[key] for key in prompts}
    said = {key: verdict for key, (_, verdict) in found.items() if verdict is not None}
    unread = [key for key in found if key not in said]
    labelled = labeller.label([(prompts[key], found[key][0]) for key in unread])
    said |= dict(zip(unread, labelled, strict=True))
    if lost := sum(verdict.reason in NO_VERDICT for verdict in said.values()):
        raise OverbenchError(
            f"The labeller gave no verdict on {lost:,} of {len(said):,} replies. The replies are kept: start "
            "the same command again to label the rest."
        )
    return said


def refusals(prompt: str, by_target: Mapping[str, Mapping[str, Verdict]]) -> tuple[list[str], list[str]]:
    """(the targets that refuse the prompt of that id, those whose reply has no label), in their order."""
    labels: Sequence[tuple[str, str]] = [(name, said[prompt].label) for name, said in by_target.items()]
    refused, unscored = ([n for n, one in labels if one == label] for label in ("refused", "unscored"))
    return refused, unscored
