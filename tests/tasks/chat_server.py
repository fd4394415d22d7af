"""A small OpenAI-compatible chat server on the loopback interface, answering from a function."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Choice = dict[str, Any]


def choice(content: str | None, finish_reason: str = "stop", **message: Any) -> Choice:
    """One element of ``choices`` in a chat completion."""
    return {
        "index": 0,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": content, **message},
    }


class ChatServer(ThreadingHTTPServer):
    """Keeps every request body in ``requests``."""

    daemon_threads = True

    def __init__(self, reply: Callable[[str], Choice]) -> None:
        self.reply, self.requests = reply, list[dict[str, Any]]()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/chat/completions"


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        answer = {
            "id": "1",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [self.server.reply(body["messages"][-1]["content"])],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def chat_server(reply: Callable[[str], Choice]) -> Iterator[ChatServer]:
    """A running server for the length of a ``with`` block."""
    with ChatServer(reply) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
