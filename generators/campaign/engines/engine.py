"""What a campaign asks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from generators.campaign.campaign_folder import JobFailure
from generators.campaign.campaign_jobs import CampaignJob
from generators.campaign.finished_cells import CellFacts


class Finished(NamedTuple):
    """What came of a job."""

    job: CampaignJob
    cells: list[CellFacts]
    failure: JobFailure | None


class Engine(Protocol):
    """Carries out jobs, in any order; a job that fails stops no other."""

    def run(self, jobs: Sequence[CampaignJob], out: Path, heard: Callable[[Finished], None]) -> None:
        """Return when all have ended; ``heard`` is told of each in the calling thread."""
