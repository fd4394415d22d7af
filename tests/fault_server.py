"""An OpenAI-compatible judge on the loopback interface that fails in every way asked of it.

Run as a program (latency in seconds, port), it answers well: the server of the benchmark.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web


class Fault(NamedTuple):
    """A response that is no verdict. ``kind`` is ``status``, ``body``, ``cut``, ``drop`` or ``stall``."""

    kind: str
    status: int = 200
    retry_after: str | None = None
    body: str = ""
    after_sec: float = 0.0


def status(code: int, retry_after: str | None = None, body: str = '{"error": {"message": "no"}}') -> Fault:
    return Fault("status", code, retry_after, body)


def body(text: str) -> Fault:
    """Status 200 and anything at all."""
    return Fault("body", body=text)


DROP = Fault("drop")
"""The connection closes before a response."""
CUT = Fault("cut")
"""The connection closes in the middle of a body."""
STALL = Fault("stall")
"""No response for longer than any test waits."""


def completion(text: str | None, finish_reason: str = "stop", **message: Any) -> str:
    """The JSON of a chat completion that cost 100 + 4 tokens."""
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"content": text, **message}}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 4}})


def text_completion(text: str) -> str:
    """The JSON of a completion without messages."""
    return json.dumps({"choices": [{"index": 0, "finish_reason": "stop", "text": text}]})


Behaviour = Callable[[str, int], "str | Fault"]
"""The whole request text and how often it was seen, from 1 -> what the judge says, or a fault."""


@dataclass
class FaultServer:
    behave: Behaviour
    latency_sec: float = 0.0
    url: str = ""
    asked: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    models: list[str] | Fault = field(default_factory=lambda: ["gpt-4o-mini"])
    """What GET /models answers."""
    wait_for: int = 0
    """No reply before so many requests have been in flight at once."""
    verdicts_sent: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    _all_there: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            return await self._respond(request)
        finally:
            self.in_flight -= 1

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        sent = await request.json()
        text = (
            sent["messages"][-1]["content"] if "messages" in sent else sent.get("prompt", sent.get("input"))
        )
        self.asked.append(text)
        self.times.append(time.monotonic())
        self.headers.append(dict(request.headers))
        self.bodies.append(sent)
        if self.in_flight >= self.wait_for:
            self._all_there.set()
        await self._all_there.wait()
        if self.latency_sec:
            await asyncio.sleep(self.latency_sec)
        what = self.behave(text, self.asked.count(text) if len(self.asked) < 5000 else 1)
        if isinstance(what, str):
            self.verdicts_sent += 1
            what = body(completion(what) if "messages" in sent else text_completion(what))
        await asyncio.sleep(what.after_sec)
        if what.kind == "stall":
            await asyncio.sleep(3)
        if what.kind in ("drop", "stall") and request.transport:
            request.transport.abort()
        if what.kind == "cut":
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(completion("VERDICT: refused").encode()[:60])
            if request.transport:
                request.transport.close()
            return response
        headers = {"Retry-After": what.retry_after} if what.retry_after else {}
        if 300 <= what.status < 400:
            headers["Location"] = str(request.url)
        return web.Response(
            text=what.body, status=what.status, headers=headers, content_type="application/json"
        )

    async def list_models(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        if isinstance(self.models, list):
            rows = [{"id": name, "object": "model", "created": 0, "owned_by": "x"} for name in self.models]
            return web.json_response({"object": "list", "data": rows})
        return web.Response(text=self.models.body, status=self.models.status)


def application(server: FaultServer) -> web.Application:
    app = web.Application()
    for path in ("chat/completions", "completions", "moderations"):
        app.router.add_post(f"/v1/{path}", server.handle)
    app.router.add_get("/v1/models", server.list_models)
    return app


@contextmanager
def fault_server(behave: Behaviour, latency_sec: float = 0.0, port: int = 0) -> Iterator[FaultServer]:
    """A running server for the length of a ``with`` block; at any free port where none is named."""
    server = FaultServer(behave, latency_sec)
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(
        application(server), access_log=None, handler_cancellation=True, shutdown_timeout=0.1
    )

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def item_number(text: str) -> int:
    """The number behind the last ``item`` in a request, by which tests tell requests apart."""
    return int(re.findall(r"item (\d+)", text)[-1])


LABELS = ("complied", "refused", "partial")


def true_label(number: int) -> str:
    """The label that item ``number`` deserves."""
    return LABELS[number % 3]


def honest(text: str, _: int = 1) -> str:
    """A judge that is always right."""
    return f"VERDICT: {true_label(item_number(text))}"


def count_by_item(server: FaultServer) -> Counter[int]:
    """How often each item was asked."""
    return Counter(map(item_number, server.asked))


if __name__ == "__main__":
    web.run_app(
        application(FaultServer(honest, latency_sec=float(sys.argv[1]))),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        print=None,
        access_log=None,
    )
