"""Processes of a campaign: they end when it does, however that comes about."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

GRACE_SEC: Final = 20.0
"""For a process to end by itself once it is asked to."""
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
    """End a process and all of its group."""
    if process.poll() is not None:
        return
    for ask in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, ask)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SEC)
            return


def last_lines(log: Path, most: int = 3) -> str:
    """What a process said at its end, or why that isn't known."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4000))
            said = file.read().decode("utf-8", "replace")
    except OSError as error:
        return f"({error})"
    lines = [line.strip() for line in said.replace("\r", "\n").splitlines() if line.strip()]
    return " | ".join(lines[-most:])
