"""The servers that answer for targets: one at a time, up while jobs of its target follow one another."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from generators.campaign.campaign_jobs import CampaignJob, environment
from generators.campaign.engines.processes import last_lines, start, stop
from overbench_tasks.errors import OverbenchError

POLL_SEC: Final = 0.5


class Servers:
    """Starts, waits for and stops servers.

    Args:
        folder: for their logs, ``server-TARGET.txt``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._target, self._port, self._users = "", 0, 0
        self._starting = False
        self._failed: dict[str, str] = {}

    @contextmanager
    def serving(self, job: CampaignJob) -> Iterator[int | None]:
        """The port of the server of the job's target, up as long as the block lasts; None: it has none.

        Waits for jobs of another target that use theirs.

        Raises:
            OverbenchError: it ended, or was not up in time; from then on at once for each job of this target.
        """
        if job.server is None:
            yield None
            return
        self._take(job)
        try:
            yield self._port
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def _take(self, job: CampaignJob) -> None:
        with self._changed:
            # Whoever starts or uses one goes first.
            self._changed.wait_for(
                lambda: not self._starting and (self._users == 0 or self._target == job.target)
            )
            if job.target in self._failed:
                raise OverbenchError(self._failed[job.target])
            alive = self._process is not None and self._process.poll() is None
            if self._target == job.target and alive:
                self._users += 1
                return
            self._starting = True
        try:
            self.stop()
            self._start(job)
        except OverbenchError as error:
            self._failed[job.target] = str(error)
            self.stop()
            raise
        finally:
            with self._changed:
                self._starting = False
                self._users += self._process is not None
                self._changed.notify_all()

    def _start(self, job: CampaignJob) -> None:
        assert job.server is not None
        self._target, self._port = job.target, job.server.port or free_port()
        filled = {"port": str(self._port), "model": job.served_model}
        words = [_filled(word, filled) for word in shlex.split(job.server.command)]
        log = self._folder / f"server-{job.target}.txt"
        log.unlink(missing_ok=True)
        shown = shlex.join(words)
        try:
            self._process = start(words, log, environment(), signal.SIGTERM)
        except OSError as error:
            raise OverbenchError(
                f"The server of {job.target} can't be started: {error}. Command: {shown}"
            ) from error
        ready, until = _filled(job.server.ready, filled), time.monotonic() + job.server.timeout_sec
        while not _answers(ready):
            if (code := self._process.poll()) is not None:
                said = f"ended with exit code {code}"
            elif time.monotonic() > until:
                said = f"did not answer {ready} within {job.server.timeout_sec:,.0f} s"
            else:
                time.sleep(POLL_SEC)
                continue
            raise OverbenchError(
                f"The server of {job.target} {said}. It said: {last_lines(log)}. Command: {shown}"
            )

    def stop(self) -> None:
        """Stop the server that is up, if one is."""
        if self._process is not None:
            stop(self._process)
            self._process = None
            self._target = ""


def _filled(template: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(port|model)\}", lambda found: values[found[1]], template)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - from the user's own settings
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
