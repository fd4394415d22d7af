"""What a campaign asks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from traceback import format_exception
from types import MappingProxyType
from typing import NamedTuple, Protocol

from overbench.campaign.campaign_folder import JobFailure, note_failure, unwritable
from overbench.campaign.campaign_jobs import LOG, CampaignJob
from overbench.campaign.finished_cells import CellFacts
from overbench_tasks.errors import OverbenchError


class JobResult(NamedTuple):
    """What came of a job.

    Attributes:
        job: with the cells that are done.
        cells: what is known of these.
        failure: of its other cells.
        apart: in place of a failure, the other cells once more, a set each.
    """

    job: CampaignJob
    cells: list[CellFacts]
    failure: JobFailure | None
    apart: tuple[CampaignJob, ...] = ()


def failed(
    job: CampaignJob,
    out: Path,
    error: Exception,
    command: str,
    taken: Mapping[str, CellFacts] = MappingProxyType({}),
) -> JobResult:
    """A job that an error has ended; of one that nobody foresaw its log has the traceback.

    Args:
        command: shows the error again.
        taken: name of each cell that is done for all that -> what is known of it.
    """
    why = str(error)
    if isinstance(error, OSError):
        why = unwritable(out, error)
    elif not isinstance(error, OverbenchError):
        why = f"{type(error).__name__}: {error}"
        with suppress(OSError), (job.folder(out) / LOG).open("a", encoding="utf-8") as log:
            log.writelines(format_exception(error))
    failure = note_failure(job.without(taken), out, why, command)
    return JobResult(job.only(taken), [*taken.values()], failure)


class Engine(Protocol):
    """Carries out jobs, in any order; a job that fails stops no other."""

    def run(self, jobs: Sequence[CampaignJob], out: Path, on_result: Callable[[JobResult], None]) -> None:
        """Return when all have ended; ``on_result`` is told of each in the calling thread."""
