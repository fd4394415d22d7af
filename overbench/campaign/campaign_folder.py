"""The folder of a campaign: who may work in it, and what it remembers of jobs beside finished cells.

campaign.yaml      the settings as last used
cells/             finished cells: TARGET/SYSTEM PROMPT/DECODING/SET/KEY, lm-eval's output and cell.json
refresh/           run directories of refreshes
work/              what runs now, and what failed, each with log.txt and failure.json
caches/            lm-eval's --use_cache, a file for each way in which a target is asked
shards/            with Ray: finished parts of cells
tasks/             the files of the sets that are tasks of their own
release/, report.html, report.md, report_figures/
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from socket import gethostname
from typing import Any, Final

import yaml
from filelock import FileLock, Timeout

from generators.settings import checked, read_settings
from overbench.campaign.campaign_jobs import LOG, WORK, CampaignJob
from overbench.campaign.campaign_settings import CampaignSettings, with_todays_names
from overbench.campaign.task_specs import absolute_source
from overbench_tasks.errors import OverbenchError
from overbench_tasks.tables import whole_file

SETTINGS_FILE: Final = "campaign.yaml"
LOCK_SEC: Final = 1.0
"""To wait for the lock, which ``status`` holds for a moment."""
_STARTED, _FAILED = "started.json", "failure.json"


@dataclass(frozen=True)
class JobFailure:
    """Why a job has not finished its cells.

    Attributes:
        job: its name.
        cells: the names of its cells.
        why: in a sentence or two.
        command: shows the error again.
        log: what it said, where there is anything.
    """

    job: str
    cells: tuple[str, ...]
    why: str
    command: str
    log: str


@dataclass(frozen=True)
class StartedJob:
    """A job at work.

    Attributes:
        job: its name.
        cells: the names of its cells.
        started: when, in seconds since 1970.
        folder: where it works.
    """

    job: str
    cells: tuple[str, ...]
    started: float
    folder: Path


@contextmanager
def locked(out: Path, settings: CampaignSettings) -> Iterator[None]:
    """Work in a campaign's folder, alone; it is made where it is missing.

    Raises:
        OverbenchError: another campaign works there, or it can't be written.
    """
    lock = FileLock(out / ".lock")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=LOCK_SEC)
        with whole_file(out / SETTINGS_FILE) as file:
            yaml.safe_dump(_told(settings), file, sort_keys=False, allow_unicode=True)
    except Timeout as error:
        raise OverbenchError(
            f"Another campaign works in {out}. Wait for it or stop it, or name another folder; "
            "`overbench campaign status` works meanwhile."
        ) from error
    except OSError as error:
        lock.release()
        raise OverbenchError(f"{out} can't be written: {error}. Make room or mend the rights.") from error
    try:
        yield
    finally:
        lock.release()


def _told(settings: CampaignSettings) -> dict[str, Any]:
    """The settings for the file, from which the status may be asked anywhere."""
    told = settings.model_dump(mode="json", exclude={"out"})
    for one in told["sets"].values():
        one |= {name: absolute_source(one[name]) for name in ("source", "unsafe_source")}
    if told["release"]:
        told["release"]["sources"] = list(map(absolute_source, told["release"]["sources"]))
    return told


def check_there(out: Path) -> None:
    """Raise OverbenchError where the folder is gone, as a shared one may be: nothing is made in its place."""
    if not (out / SETTINGS_FILE).is_file():
        raise OverbenchError(
            f"The campaign's folder {out} has vanished, or {gethostname()} never saw it. Bring it back, on a "
            "cluster for all nodes under the same path, then start the same command again: it goes on from "
            "there."
        )


def unwritable(out: Path, error: OSError) -> str:
    """What to tell people of a full disk, or a missing right."""
    return f"{out} can't be read or written: {error}. Make room or mend the rights; then start again."


def settings_in(out: Path) -> CampaignSettings:
    """The settings that the campaign in a folder was last started with.

    Raises:
        OverbenchError: there is none, or it was by a version with other settings.
    """
    if not (out / SETTINGS_FILE).is_file():
        raise OverbenchError(f"Expected the folder of a campaign, with {SETTINGS_FILE} in it, got {out}.")
    settings, _ = with_todays_names(read_settings(out / SETTINGS_FILE))
    return checked(CampaignSettings, settings, f"{out / SETTINGS_FILE}: ")


def note_start(job: CampaignJob, out: Path) -> None:
    """Let the status know that a job is at work."""
    with whole_file(job.folder(out) / _STARTED) as file:
        cells = [cell.name for cell in job.cells]
        json.dump({"job": job.name, "cells": cells, "started": time.time()}, file)


def note_failure(job: CampaignJob, out: Path, why: str, command: str) -> JobFailure:
    """Remember why a job failed, as far as there is still a folder to do so in."""
    folder = job.folder(out)
    log = folder / LOG
    failure = JobFailure(
        job.name, tuple(cell.name for cell in job.cells), why, command, str(log) if log.is_file() else ""
    )
    with suppress(OSError):
        (folder / _STARTED).unlink(missing_ok=True)
    keep_failure(failure, out, folder)
    return failure


def keep_failure(failure: JobFailure, out: Path, folder: Path) -> None:
    """Let the status know of it, as long as nobody starts the campaign again."""
    with suppress(OSError, OverbenchError):
        check_there(out)
        with whole_file(folder / _FAILED) as file:
            json.dump(asdict(failure), file, indent=2, ensure_ascii=False)


def failures(out: Path) -> list[JobFailure]:
    """Those of earlier attempts that no later one has mended."""
    found = (_read(file) for file in sorted((out / WORK).glob(f"*/{_FAILED}")))
    return [JobFailure(**{**told, "cells": tuple(told["cells"])}) for told in found if told]


def at_work(out: Path) -> dict[str, StartedJob]:
    """The jobs that were started and have not ended, by key."""
    found = {file.parent.name: _read(file) for file in (out / WORK).glob(f"*/{_STARTED}")}
    return {
        key: StartedJob(told["job"], tuple(told.get("cells", ())), float(told["started"]), out / WORK / key)
        for key, told in found.items()
        if told
    }


def is_locked(out: Path) -> bool:
    """Whether somebody works in the folder."""
    lock = FileLock(out / ".lock")
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def _read(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
