"""Jobs carried out on this machine, one after another or several at once."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

from overbench.campaign.campaign_folder import check_there, note_start
from overbench.campaign.campaign_jobs import (
    LOG,
    CampaignJob,
    environment,
    evaluations,
    mark_refreshed,
    start_afresh,
)
from overbench.campaign.early_stop import first_limit, next_limit
from overbench.campaign.engines.engine import JobResult, failed
from overbench.campaign.engines.processes import end_left_over, last_lines, start, stop
from overbench.campaign.engines.servers import Servers
from overbench.campaign.finished_cells import CellFacts, take_each
from overbench_tasks.errors import OverbenchError

SAY_EVERY_SEC: Final = 60.0
"""Between two lines on how far a job is."""
_POLL_SEC = 0.05
_PERCENT = re.compile(rb"(\d{1,3})%\|")
_ASKING: Final = b"Running generate_until requests"
"""What lm_eval says once the model is there."""


class LocalEngine:
    """Runs jobs as processes of this machine.

    Args:
        jobs: how many at once.
        say: told what is at work, a line at a time.
    """

    def __init__(self, jobs: int = 1, say: Callable[[str], object] = lambda line: None) -> None:
        self._most = jobs
        self._say = say
        self._stopped = threading.Event()

    def run(self, jobs: Sequence[CampaignJob], out: Path, on_result: Callable[[JobResult], None]) -> None:
        """See :class:`Engine`. What is interrupted (Ctrl-C) is stopped, and no failure."""
        end_left_over(out)
        left = list(jobs)
        running: dict[Future[JobResult], CampaignJob] = {}
        servers = Servers(out, self._stopped)
        with ThreadPoolExecutor(self._most) as pool:
            try:
                while left or running:
                    while len(running) < self._most and (job := _next(left, [*running.values()])):
                        left.remove(job)
                        running[pool.submit(run_job, job, out, servers, self._stopped)] = job
                        self._say(f"{job.name} ...")
                    ended = self._wait(running, out)
                    for future in ended:
                        del running[future]
                        finished = future.result()
                        left[:0] = finished.apart
                        on_result(finished)
            finally:
                self._stopped.set()
                wait(running)
                servers.stop()
                self._stopped.clear()

    def _wait(self, running: dict[Future[JobResult], CampaignJob], out: Path) -> set[Future[JobResult]]:
        """Until one has ended; says meanwhile how far all are."""
        while True:
            ended, _ = wait(running, SAY_EVERY_SEC, FIRST_COMPLETED)
            if ended:
                return ended
            for job in running.values():
                if (percent := progress(job.folder(out) / LOG)) is not None:
                    self._say(f"{job.name}: {percent} %")


def _next(left: Sequence[CampaignJob], running: Sequence[CampaignJob]) -> CampaignJob | None:
    """The first whose cache nobody uses, and whose server, if it needs one, no other keeps from starting."""
    caches = {job.cache for job in running if job.cache}
    served = {job.target for job in running if job.server}
    for job in left:
        if job.cache not in caches and not (job.server and served - {job.target}):
            return job
    return None


def progress(log: Path) -> int | None:
    """How far lm_eval's newest progress bar is, in percent; None where it shows none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4000))
            found = _PERCENT.findall(file.read())
    except OSError:
        return None
    return int(found[-1]) if found else None


def run_job(
    job: CampaignJob, out: Path, servers: Servers, stopped: threading.Event | None = None
) -> JobResult:
    """Start a job's process, wait for it, and take in what it wrote; every error becomes its failure.

    Args:
        stopped: once it is set, the process is stopped.
    """
    port = limit = None
    taken: dict[str, CellFacts] = {}
    try:
        check_there(out)
        log = start_afresh(job, out)
        note_start(job, out)
        limit = first_limit(job)
        with servers.serving(job) as port:
            while True:
                process = start(job.words(port, limit), log, environment(out))
                try:
                    while process.poll() is None and not (stopped and stopped.is_set()):
                        time.sleep(_POLL_SEC)
                finally:
                    stop(process)
                if process.returncode or (stopped and stopped.is_set()):
                    break
                if (more := next_limit(job, out, limit)) is None:
                    break
                limit = more
        if stopped and stopped.is_set():
            return _dropped(job, out)
        check_there(out)
        crash = f"exit code {process.returncode}: {last_lines(log)}" if process.returncode else ""
        if crash and len(job.cells) < 2:
            raise OverbenchError(crash)
        taken, problems = take_each(job, out)
        if crash and len(problems) > 1 and _ASKING in log.read_bytes():
            return JobResult(job.only(taken), [*taken.values()], None, _apart(job.without(taken), out))
        if problems:
            raise OverbenchError(crash or " ".join(problems))
        if job.refreshes is not None:
            mark_refreshed(job.refreshes)
        shutil.rmtree(job.folder(out), ignore_errors=True)
    except Exception as error:  # whatever it is, other jobs go on
        if stopped and stopped.is_set():
            return _dropped(job, out)
        return failed(job, out, error, job.shown(port, limit), taken)
    return JobResult(job, [*taken.values()], None)


def _apart(job: CampaignJob, out: Path) -> tuple[CampaignJob, ...]:
    """A job for each cell, where lm_eval has ended in an error while it asked: one set alone may be to blame,
    and what the others were answered is in the cache."""
    return tuple(evaluations(job.cells, out, together=False, max_failed=job.max_failed))


def _dropped(job: CampaignJob, out: Path) -> JobResult:
    shutil.rmtree(job.folder(out), ignore_errors=True)
    return JobResult(job, [], None)
