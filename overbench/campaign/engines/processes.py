"""Processes of a campaign: they end when it does, however that comes about."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from overbench.campaign.campaign_jobs import CAMPAIGN_VARIABLE
from overbench_tasks.text import printable

GRACE_SEC: Final = 20.0
"""For a process to end by itself once it is asked to."""
ORPHANS_SEC: Final = 2.0
"""For those of its group that are left."""
_POLL_SEC: Final = 0.05
_PR_SET_PDEATHSIG: Final = 1


def start(
    words: Sequence[str], log: Path, env: dict[str, str], end_by: signal.Signals = signal.SIGKILL
) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own, so that Ctrl-C reaches this process alone.

    On Linux it gets ``end_by`` when the thread that started it is no more, killed or not; elsewhere it
    outlives a killed campaign, and ends by itself. What it says goes to the end of ``log``.

    Raises:
        OSError: it can't be started, or the log can't be written.
    """
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603 - the user's own
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
            preexec_fn=None if _LIBC is None else partial(_LIBC.prctl, _PR_SET_PDEATHSIG, int(end_by)),
        )


_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its group, also where it has ended itself and others of the group have not."""
    for ask in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            _signal_group(process, ask)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SEC)
    _signal_group(process, signal.SIGTERM)
    until = time.monotonic() + ORPHANS_SEC
    while _signal_group(process, 0) and time.monotonic() < until:
        time.sleep(_POLL_SEC)
    _signal_group(process, signal.SIGKILL)


def _signal_group(process: subprocess.Popen[bytes], ask: int) -> bool:
    """Whether there was anybody to signal; 0 asks that alone."""
    try:
        if process.poll() is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, 0)
                return False  # the number was given away, which it isn't while the group has members
        os.killpg(process.pid, ask)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_left_over(folder: Path) -> None:
    """End what a killed campaign in ``folder`` has left running, such as the workers of its server.

    Processes are known by what :func:`~overbench.campaign.campaign_jobs.environment` gave them, so nothing
    happens where there is no ``/proc``. For the one who works in that folder.
    """
    until = time.monotonic() + GRACE_SEC
    while (found := left_over(folder)) and time.monotonic() < until:
        for one in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        time.sleep(_POLL_SEC)


def left_over(folder: Path) -> list[int]:
    """The processes of campaigns in ``folder`` that run on this machine."""
    mark = f"{CAMPAIGN_VARIABLE}={folder}".encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in file.read_bytes().split(b"\0") and file.parent.name != str(os.getpid()):
                found.append(int(file.parent.name))
    return found


def last_lines(log: Path) -> str:
    """What a process said at its end, fit for a terminal; or why that isn't known."""
    return " | ".join(last_said(log, 3))


def last_said(log: Path, most: int) -> list[str]:
    """The same, of more lines."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4000))
            said = file.read().decode("utf-8", "replace")
    except OSError as error:
        return [f"({error})"]
    return [line for one in said.replace("\r", "\n").splitlines() if (line := printable(one))][-most:]
