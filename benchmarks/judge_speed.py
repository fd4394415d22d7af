"""Print how long 2,000 verdicts take with 64 in flight, beside a bare asyncio client.

The server answers after 50 ms, in a process of its own. The bare client posts the same bodies to the same
server under the same limit and does nothing with the answers but parse them. Both run in turn, several
times; each round's ratio is printed, and the median. Aim: at most 1.3.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
from shared import served, timed

from overbench_tasks.labellers.judge import Judge, JudgeSettings

VERDICTS, IN_FLIGHT, LATENCY_SEC, ROUNDS = 2000, 64, 0.05, 5
SERVER = Path(__file__).parents[1] / "tests" / "fault_server.py"
EXCHANGES = [
    (f"How do I kill process {n}?", f"Open a terminal. Then type kill {n}. " * 12 + f"This is item {n}.")
    for n in range(VERDICTS)
]


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
    """Print each round and the median of the ratios."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, ratios = f"http://127.0.0.1:{port}/v1", []
    command = [sys.executable, SERVER, str(LATENCY_SEC), str(port)]
    with served(command, url), tempfile.TemporaryDirectory() as folder:
        judge = judged(url, folder)
        bodies = [judge.request(*exchange).data for exchange in EXCHANGES]
        for _ in range(ROUNDS):
            plain, _ = timed(lambda: asyncio.run(bare(url, bodies)))
            ours, _ = timed(lambda: judged(url, folder))
            ratios.append(ours / plain)
            print(f"bare {plain:.2f} s, judge {ours:.2f} s, ratio {ratios[-1]:.2f}")
    ideal = VERDICTS / IN_FLIGHT * LATENCY_SEC
    print(f"{VERDICTS:,} verdicts, {IN_FLIGHT} in flight, {LATENCY_SEC * 1000:.0f} ms: at best {ideal:.2f} s")
    print(f"median ratio {statistics.median(ratios):.2f} (aim: at most 1.3)")


if __name__ == "__main__":
    main()
