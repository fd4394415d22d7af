"""lm-eval's sample logs as a report reads them: verdicts, some replies, and how each run was set.

Which logs there are and whose they are is said by :mod:`generators.release.responses`, as for a release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generators.release.responses import Log, find_logs
from generators.targets.naming import Aliases
from overbench_tasks.logs import SAMPLES, reply_row
from overbench_tasks.records import Verdict
from overbench_tasks.tables import read_table

LONGEST_REPLY = 600
"""Characters of a reply that a report keeps."""


@dataclass(frozen=True)
class Run:
    """One task of one lm-eval run.

    Attributes:
        decoding: ``greedy``, or what was sampled with.
        version: of the task, and the file that took the place of its prompts, if one did.
        seconds: how long all tasks of the run took together; None where the results don't say.
    """

    log: Log
    decoding: str
    version: str
    seconds: float | None


@dataclass(frozen=True)
class Sample:
    """One prompt of a run.

    Attributes:
        features: its trigger words.
        verdicts: one per reply.
        reply: the first refused reply, or else the first; at most :data:`LONGEST_REPLY` characters.
    """

    prompt: str
    category: str | None
    features: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    reply: str


def read_runs(folders: Sequence[Path], aliases: Aliases) -> list[Run]:
    """All runs in the folders, by target and file.

    Raises:
        OverbenchError: as :func:`generators.release.responses.find_logs`.
    """
    return [_run(log) for log in find_logs(folders, aliases)]


def _run(log: Log) -> Run:
    return Run(log, _decoding(log.run.generation), _version(log.run.metadata), log.run.seconds)


def _decoding(generation: Mapping[str, Any]) -> str:
    if not generation.get("do_sample") and not generation.get("temperature"):
        return "greedy"
    shown = [name for name in ("temperature", "top_p", "top_k") if name in generation]
    return ", ".join(["sampled", *(f"{name} {generation[name]}" for name in shown)])


def _version(metadata: Mapping[str, Any]) -> str:
    source = metadata.get("overbench_source")
    # Only the last part: where a file lies on somebody's machine is nobody else's business.
    return f"version {metadata.get('version')}" + (f", from {Path(str(source)).name}" if source else "")


def read_samples(run: Run) -> Iterator[Sample]:
    """The prompts of a run, one at a time.

    Raises:
        OverbenchError: the log is cut off, or holds something else.
    """
    for where, raw in read_table(run.log.run.file):
        row = reply_row(raw, SAMPLES, where)
        if row.filter != run.log.run.filter:
            continue
        doc, verdicts = raw["doc"], row.logged or ()
        telling = next((n for n, verdict in enumerate(verdicts) if verdict.label == "refused"), 0)
        yield Sample(
            row.prompt or "",
            doc.get("category"),
            tuple(map(str, doc.get("features") or ())),
            verdicts,
            row.replies[telling][:LONGEST_REPLY],
        )
