"""Runs ``overbench campaign`` and watches it: replies of its servers, lm_evals; kills it at given moments."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from overbench.campaign.campaign_folder import running_jobs
from overbench.campaign.engines.processes import left_over
from overbench_tasks.outcomes.logs import sample_logs
from overbench_tasks.tables import read_table, whole_file

POLL_SEC: Final = 0.1
HOW: Final = ("alone", "with its children", "with all of its tree")
"""Who gets the SIGKILL beside the campaign's process: nobody, as from an out-of-memory killer; lm_eval and
the first process of the server; everybody at once. They take turns."""
_ANSWERED: Final = (b"POST /v1/chat/completions", b" 200")


class Followed:
    """A growing file, read to its end also after it was deleted."""

    def __init__(self, file: Path) -> None:
        self._file: IO[bytes] = file.open("rb")
        self._begun = b""

    def lines(self) -> list[bytes]:
        """Those that are new and whole."""
        *lines, self._begun = (self._begun + self._file.read()).split(b"\n")
        return lines

    def close(self) -> None:
        self._file.close()


class Watch:
    """What happens in a campaign's folder from now on.

    Args:
        temporary: where Ray's workers, if any, have their files.

    Attributes:
        asked: (target, cells or refresh) -> replies that its server sent, by its own log.
        lm_evals: how many were started.
        refreshes: how often one was started or gone on with.
    """

    def __init__(self, out: Path, temporary: Path | None = None) -> None:
        self._out, self._temporary = out, temporary
        self._followed: dict[tuple[str, int], tuple[Followed, str]] = {}
        self.asked: Counter[tuple[str, str]] = Counter()
        self.lm_evals = self.refreshes = 0
        self.look()  # what an earlier attempt has left
        self.asked.clear()
        self.lm_evals = self.refreshes = 0

    def look(self) -> None:
        """Take in what is new; to be called often."""
        what = "refresh" if any(self._out.glob("work/refresh-*/started.json")) else "cells"
        workers = [*self._temporary.glob("overbench-*/*.txt")] if self._temporary else []
        for file in (*self._out.glob("work/*/*.txt"), *self._out.glob("server-*.txt"), *workers):
            with suppress(OSError):
                # A file that is open keeps its number, so what follows it has another.
                key = (file.name if file.name != "log.txt" else file.parent.name, file.stat().st_ino)
                if key not in self._followed:
                    refresh = file.parent.name.startswith("refresh-")
                    # On Ray a refresh has a server of its own, and cells are asked beside it.
                    by = "refresh" if refresh else "cells" if file in workers else ""
                    self._followed[key] = Followed(file), by
                    self.refreshes += refresh and file.name == "log.txt"
                    self.lm_evals += file.name == "log.txt" and not refresh
        for (name, _), (log, by) in self._followed.items():
            if name.startswith("server-"):
                target = name.removeprefix("server-").removesuffix(".txt")
                sent = sum(all(mark in line for mark in _ANSWERED) for line in log.lines())
                self.asked[target, by or what] += sent

    def close(self) -> None:
        for log, _ in self._followed.values():
            log.close()


def descendants(process: int) -> list[int]:
    """The processes that a process has started, and those that they have; as ``/proc`` knows them."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
    processes = [process]
    for ancestor in processes:
        processes += [child for child, parent in parents.items() if parent == ancestor]
    return processes[1:]


def children(process: int) -> list[int]:
    """The processes that a process itself has started."""
    listed = (file.read_text().split() for file in Path(f"/proc/{process}/task").glob("*/children"))
    return [int(pid) for some in listed for pid in some]


def attempt(
    words: Sequence[str],
    out: Path,
    log: Path,
    for_sec: float | None = None,
    how: str = HOW[0],
    *,
    temporary: Path | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Run a campaign to its end, or kill it after ``for_sec``; ``meanwhile`` is called all the time.

    Returns:
        a record: seconds, exit code, what was asked and started; of a kill, what was at work and which
        processes outlived it, a second later.
    """
    watch, begun = Watch(out, temporary), time.monotonic()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with log.open("ab") as log_file:
        process = subprocess.Popen(
            words,
            stdout=log_file,
            stderr=log_file,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    record: dict[str, Any] = {"killed": None}
    try:
        while process.poll() is None:
            if for_sec is not None and time.monotonic() - begun >= for_sec:
                record["killed"] = _kill(process, out, how)
                break
            watch.look()
            meanwhile()
            time.sleep(POLL_SEC)
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    record |= {"seconds": round(time.monotonic() - begun, 1), "exit_code": process.wait()}
    if record["killed"]:
        time.sleep(1)  # a kill reaches the processes of a process a moment later
        record["killed"]["outlived_by"] = sorted(map(_title, left_over(out)))
    watch.look()
    watch.close()
    replies = [
        {"target": target, "by": by, "replies": n} for (target, by), n in sorted(watch.asked.items()) if n
    ]
    return {**record, "asked": replies, "lm_evals": watch.lm_evals, "refreshes": watch.refreshes}


def _kill(process: subprocess.Popen[bytes], out: Path, how: str) -> dict[str, Any]:
    jobs = [key.partition("-")[0] == "refresh" for key in running_jobs(out)]
    also = {HOW[0]: [], HOW[1]: children(process.pid), HOW[2]: descendants(process.pid)}[how]
    for pid in (process.pid, *also):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return {"how": how, "during": "refresh" if any(jobs) else "cells" if jobs else "start"}


def _title(process: int) -> str:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "gone"
    return next(
        (word.decode() for word in words if word in (b"lm_eval", b"refresh") or b"api_server" in word), ""
    ) or (Path(words[0].decode()).name)


def watched(out: Path, file: Path, kill_after: Sequence[float], kind: str) -> dict[str, Any]:
    """Run the campaign in ``out`` to its end, killed and continued at moments.

    Args:
        file: its settings.
        kill_after: seconds of its own running time, all attempts together, ascending.
        kind: for the record, which is kept beside the folder and goes on where it was.
    """
    words, log = campaign_words(file, out), out.with_name(f"{out.name}.log")
    record = read_record(out)
    moments = record.setdefault(kind, {"moments": list(kill_after), "attempts": []})["moments"]
    attempts = record[kind]["attempts"]
    if attempts and attempts[-1]["exit_code"] == 0:
        return record
    more = True
    while more:
        ran, number = sum(attempt["seconds"] for attempt in attempts), len(attempts)
        for_sec = max(0.0, moments[number] - ran) if number < len(moments) else None
        attempts.append(attempt(words, out, log, for_sec, HOW[number % len(HOW)]))
        more = bool(attempts[-1]["killed"])
        _note(out, record, kind)
    return record


def watched_on_ray(out: Path, file: Path, cells: int) -> dict[str, Any]:
    """The same on two nodes, one of which loses a worker, and later is lost."""
    from campaign_nodes import KILLS, two_nodes

    temporary, record = out.with_name(f"{out.name}.tmp"), read_record(out)
    attempts = record.setdefault("ray", {"attempts": []})["attempts"]
    if attempts and attempts[-1]["exit_code"] == 0:
        return record
    with two_nodes(out, cells, temporary) as nodes:
        words = [*campaign_words(file, out), "--engine", "ray", "--address", nodes.address]
        log = out.with_name(f"{out.name}.log")
        attempted = attempt(words, out, log, temporary=temporary, meanwhile=nodes.look)
        attempted["nodes"] = nodes.killed
    attempts.append(attempted)
    _note(out, record, "ray")
    if len(attempted["nodes"]) < len(KILLS):
        raise SystemExit(f"Killed were {attempted['nodes']}, of {KILLS}: the campaign is too small.")
    return record


def campaign_words(file: Path, out: Path) -> list[str]:
    """The command line of a campaign."""
    return [sys.executable, "-m", "overbench.cli", "campaign", str(file), "--out", str(out)]


def _note(out: Path, record: dict[str, Any], kind: str) -> None:
    """Keep the record, with what the cells came to by the last attempt."""
    last = record[kind]["attempts"][-1]
    results = [json.loads(cell.read_text())["result"] for cell in out.glob("cells/**/cell.json")]
    last |= {"cells": len(results), "replies": sum(result["prompts"] for result in results)}
    last["needed"] = needed(out)
    with whole_file(record_file(out)) as stream:
        json.dump(record, stream, indent=1)
    print(f"{kind} {out.name}, attempt {len(record[kind]['attempts'])}: {last}", flush=True)


def needed(out: Path) -> dict[str, int]:
    """By target, how many replies the finished cells hold that a cache doesn't give to several of them."""
    requests = defaultdict(set)
    for cell in out.glob("cells/**/cell.json"):
        name = json.loads(cell.read_text())["name"].rpartition("/")[0]
        for log in sample_logs(cell.parent):
            requests[name] |= {str(row["arguments"]) for _, row in read_table(log)}
    counts: Counter[str] = Counter()
    for name, arguments in requests.items():
        counts[name.partition("/")[0]] += len(arguments)
    return dict(sorted(counts.items()))


def record_file(out: Path) -> Path:
    """Where the record of a campaign's folder lies."""
    return out.with_name(f"{out.name}.record.json")


def read_record(out: Path) -> dict[str, Any]:
    """What :func:`watched` has kept, by kind; empty at first."""
    file = record_file(out)
    return json.loads(file.read_text()) if file.is_file() else {}
