"""The servers that answer for targets: one at a time, up while jobs of its target follow one another."""

from __future__ import annotations

import http.client
import shlex
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from overbench.campaign.campaign_jobs import CampaignJob, environment, filled
from overbench.campaign.engines.processes import GRACE_SEC, last_lines, start, stop
from overbench.campaign.target_settings import PORT, ServerSettings
from overbench_tasks.errors import OverbenchError

POLL_SEC: Final = 0.5


class Servers:
    """Starts, waits for and stops servers.

    Args:
        out: the campaign's folder, by which their processes are known.
        logs: the folder of ``server-TARGET.txt``; by default the campaign's.
        stopped: once it is set, no server is waited for any more.
        any_port: take any that is free instead of a target's own, where that is never written out.
    """

    def __init__(
        self,
        out: Path,
        stopped: threading.Event | None = None,
        *,
        logs: Path | None = None,
        any_port: bool = False,
    ) -> None:
        self._out, self._logs = out, logs or out
        self._stopped = stopped or threading.Event()
        self._any_port = any_port
        self._held: socket.socket | None = None
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
            OverbenchError: it ended, also inside the block, or was not up in time, or something else has its
                port; of one that was never up at once from then on, for each job of this target.
        """
        if job.server is None:
            yield None
            return
        process = self._take(job)
        try:
            yield self._port
            if (code := process.poll()) is not None:
                raise OverbenchError(self._problem(job, f"ended with exit code {code} while it was asked"))
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def _take(self, job: CampaignJob) -> subprocess.Popen[bytes]:
        with self._changed:
            # Whoever starts or uses one goes first.
            self._changed.wait_for(
                lambda: not self._starting and (self._users == 0 or self._target == job.target)
            )
            if job.target in self._failed:
                raise OverbenchError(self._failed[job.target])
            process = self._process
            if self._target == job.target and process is not None and process.poll() is None:
                self._users += 1
                return process
            self._starting = True
        try:
            self.stop()
            return self._start(job)
        except OverbenchError as error:
            self._failed[job.target] = str(error)
            self.stop()
            raise
        finally:
            with self._changed:
                self._starting = False
                self._users += self._process is not None
                self._changed.notify_all()

    def _start(self, job: CampaignJob) -> subprocess.Popen[bytes]:
        assert job.server is not None
        self._target, self._port = job.target, self._hold_port(job, job.server)
        ready, until = filled(job.server.ready, self._port, job.served_model), time.monotonic() + GRACE_SEC
        while _answers(ready):  # the server of a killed campaign may still be about to end
            if time.monotonic() > until:
                raise OverbenchError(
                    f"Before the server of {job.target} is started, something answers {ready}. Stop that, or "
                    "let server.port be 0: any that is free."
                )
            self._pause()
        log, words = self._log(job), job.server_argv(self._port)
        log.unlink(missing_ok=True)
        try:
            process = self._process = start(words, log, environment(self._out), signal.SIGTERM)
        except OSError as error:
            raise OverbenchError(
                f"The server of {job.target} can't be started: {error}. Command: {shlex.join(words)}"
            ) from error
        until = time.monotonic() + job.server.timeout_sec
        while True:
            answers = _answers(ready)  # if it is none of ours that does so, ours ends
            if (code := process.poll()) is not None:
                raise OverbenchError(self._problem(job, f"ended with exit code {code}"))
            if answers:
                return process
            if time.monotonic() > until:
                said = f"did not answer {ready} within {job.server.timeout_sec:,.0f} s"
                raise OverbenchError(self._problem(job, said))
            self._pause()

    def _hold_port(self, job: CampaignJob, server: ServerSettings) -> int:
        """The port of a server, from now until :meth:`stop` for no other that this class starts on this
        machine: a UDP socket marks it, while servers listen by TCP."""
        texts = (server.command, server.ready, " ".join(job.command))
        anywhere = self._any_port and all(PORT in text for text in texts)
        given = 0 if anywhere else server.port
        until = time.monotonic() + server.timeout_sec
        while True:
            port = given or free_port()
            self._held = socket.socket(type=socket.SOCK_DGRAM)
            with suppress(OSError):
                self._held.bind(("127.0.0.1", port))
                return port
            self._held.close()
            if given and time.monotonic() > until:
                raise OverbenchError(
                    f"Port {port} is held for another server than that of {job.target}, by another campaign "
                    "or shard. Wait for it, or let server.port be 0: any that is free."
                )
            self._pause()

    def _pause(self) -> None:
        if self._stopped.wait(POLL_SEC):
            raise OverbenchError("The campaign was stopped.")

    def _problem(self, job: CampaignJob, what: str) -> str:
        return (
            f"The server of {job.target} {what}. It said: {last_lines(self._log(job))}. All of it: "
            f"{self._log(job)}. Command: {shlex.join(job.server_argv(self._port))}"
        )

    def _log(self, job: CampaignJob) -> Path:
        return self._logs / f"server-{job.target}.txt"

    def stop(self) -> None:
        """Stop the server that is up, if one is."""
        if self._process is not None:
            stop(self._process)
            self._process = None
            self._target = ""
        if self._held is not None:
            self._held.close()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - from the user's own settings
            return bool(response.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
