"""What a campaign asks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from traceback import format_exception
from typing import NamedTuple, Protocol

from generators.campaign.campaign_folder import JobFailure, note_failure
from generators.campaign.campaign_jobs import LOG, CampaignJob
from generators.campaign.finished_cells import CellFacts
from overbench_tasks.errors import OverbenchError


class Finished(NamedTuple):
    """What came of a job."""

    job: CampaignJob
    cells: list[CellFacts]
    failure: JobFailure | None


def failed(job: CampaignJob, out: Path, error: Exception, command: str) -> Finished:
    """A job that an error has ended; of one that nobody foresaw its log has the traceback.

    Args:
        command: shows the error again.
    """
    why = str(error)
    if isinstance(error, OSError):
        why = f"{out} can't be read or written: {error}. Make room or mend the rights; then start again."
    elif not isinstance(error, OverbenchError):
        why = f"{type(error).__name__}: {error}"
        with suppress(OSError), (job.folder(out) / LOG).open("a", encoding="utf-8") as log:
            log.writelines(format_exception(error))
    return Finished(job, [], note_failure(job, out, why, command))


class Engine(Protocol):
    """Carries out jobs, in any order; a job that fails stops no other."""

    def run(self, jobs: Sequence[CampaignJob], out: Path, heard: Callable[[Finished], None]) -> None:
        """Return when all have ended; ``heard`` is told of each in the calling thread."""
