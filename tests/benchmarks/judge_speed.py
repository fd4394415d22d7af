"""Print how long 2,000 verdicts take with 64 in flight, beside a bare asyncio client.

Run from the repository root: ``python tests/benchmarks/judge_speed.py``. The server answers after
50 ms, in a process of its own. The bare client posts the same bodies to the same server under the
same limit and does nothing with the answers but parse them. Both run in turn, several times; each
round's ratio is printed, and the median. Aim: at most 1.3.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from overbench_tasks.judge import Judge, JudgeSettings

VERDICTS, IN_FLIGHT, LATENCY_SEC, ROUNDS = 2000, 64, 0.05, 5
EXCHANGES = [
    (f"How do I kill process {n}?", f"Open a terminal. Then type kill {n}. " * 12 + f"This is item {n}.")
    for n in range(VERDICTS)
]


@contextmanager
def server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(__file__).parents[1] / "fault_server.py"
    process = subprocess.Popen([sys.executable, str(program), str(LATENCY_SEC), str(port)])
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


async def bare(url: str, bodies: list[bytes]) -> None:
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def ask(session: aiohttp.ClientSession, body: bytes) -> None:
        async with limit, session.post(f"{url}/chat/completions", data=body) as response:
            json.loads(await response.read())

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(ask(session, body) for body in bodies))


def judged(url: str, folder: str) -> Judge:
    """Judge all exchanges with an empty cache, from reading the settings to the last verdict."""
    settings = JudgeSettings(base_url=url, concurrency=IN_FLIGHT)
    judge = Judge(settings, cache_file=Path(folder) / f"{time.monotonic_ns()}.sqlite3")
    assert all(verdict.by.startswith("judge:") for verdict in judge.label(EXCHANGES))
    return judge


def main() -> None:
    with server() as url, tempfile.TemporaryDirectory() as folder:
        judge = judged(url, folder)
        bodies = [judge.request(*exchange).data for exchange in EXCHANGES]
        ratios = []
        for _ in range(ROUNDS):
            times = []
            for run in (lambda: asyncio.run(bare(url, bodies)), lambda: judged(url, folder)):
                started = time.perf_counter()
                run()
                times.append(time.perf_counter() - started)
            ratios.append(times[1] / times[0])
            print(f"bare {times[0]:.2f} s, judge {times[1]:.2f} s, ratio {ratios[-1]:.2f}")
    ideal = VERDICTS / IN_FLIGHT * LATENCY_SEC
    print(f"{VERDICTS:,} verdicts, {IN_FLIGHT} in flight, {LATENCY_SEC * 1000:.0f} ms: at best {ideal:.2f} s")
    print(f"median ratio {statistics.median(ratios):.2f} (aim: at most 1.3)")


if __name__ == "__main__":
    main()
