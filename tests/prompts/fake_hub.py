"""The part of the Hugging Face hub's HTTP interface that pushes and loads a dataset, on the loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import datasets
import huggingface_hub.constants
import pytest

Files = dict[str, bytes]


class FakeHub(ThreadingHTTPServer):
    """Datasets by id, each with the files of its commits, the last one being ``main``.

    Attributes:
        datasets: id -> list of (commit, files).
        private: the ids that need ``token``.
        gated: the ids of which all may see that they are there, and nobody has the files.
        down: answer everything with status 503.
        calls: "METHOD path" of each request.
    """

    daemon_threads = True

    def __init__(self, token: str) -> None:
        self.token = token
        self.datasets: dict[str, list[tuple[str, Files]]] = {}
        self.private: set[str] = set()
        self.gated: set[str] = set()
        self.down = False
        self.calls: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def commit(self, repo: str, files: Files, name: str = "") -> str:
        commits = self.datasets.setdefault(repo, [])
        name = name or hashlib.sha1(f"{repo} {len(commits)}".encode()).hexdigest()
        commits.append((name, files))
        return name

    def at(self, repo: str, revision: str) -> tuple[str, Files] | None:
        commits = self.datasets[repo]
        if revision == "main":
            return commits[-1] if commits else ("0" * 40, {})
        return next((commit for commit in commits if commit[0] == revision), None)


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = re.sub(r"^(/api/datasets/[^/]+/[^/]+)$", r"\1/revision/main", self._called())
        form = r"(?:/api)?/datasets/([^/]+/[^/]+)/(resolve|revision|tree)/([^/]+)(?:/(.+))?"
        if self.server.down or (match := re.fullmatch(form, path)) is None:
            return self._refuse(503 if self.server.down else 404)
        repo, what, revision, name = match.groups()
        if repo not in self.server.datasets or (repo in self.server.private and not self._allowed()):
            return self._refuse(401, "RepoNotFound")  # the hub doesn't say which of the two it is
        if (stored := self.server.at(repo, revision)) is None:
            return self._refuse(404, "RevisionNotFound")
        commit, files = stored
        if what == "tree":
            entries = [{"type": "file", "path": path, "size": len(files[path]), "oid": "0"} for path in files]
            return self._send_json(entries)
        if what == "revision":
            siblings = [{"rfilename": name} for name in files]
            return self._send_json({"id": repo, "sha": commit, "siblings": siblings})
        if repo in self.server.gated:
            return self._refuse(403, "GatedRepo")
        if name not in files:
            return self._refuse(404, "EntryNotFound")
        etag = f'"{hashlib.sha1(files[name]).hexdigest()}"'
        self._send(200, files[name], {"ETag": etag, "X-Repo-Commit": commit})

    def do_POST(self) -> None:
        path = self._called()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.down or not self._allowed():
            return self._refuse(503 if self.server.down else 401)
        if path == "/api/repos/create":
            creation = json.loads(body)
            repo = f"{creation['organization']}/{creation['name']}"
            made = {"url": f"{self.server.url}/datasets/{repo}", "name": repo}
            if repo in self.server.datasets:
                return self._send_json(made, 409)
            self.server.datasets[repo] = []
            if creation.get("private") or creation.get("visibility") == "private":
                self.server.private.add(repo)
            return self._send_json(made)
        if path == "/api/validate-yaml":
            return self._send_json({"errors": [], "warnings": []})
        match = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/(preupload|commit)/main", path)
        if match is None:
            return self._refuse(404)
        if match[2] == "commit":
            return self._commit(match[1], body)
        how = {"uploadMode": "regular", "shouldIgnore": False}
        self._send_json({"files": [{"path": file["path"], **how} for file in json.loads(body)["files"]]})

    def _commit(self, repo: str, body: bytes) -> None:
        parent = self.server.at(repo, "main")
        files = dict(parent[1]) if parent else {}
        for operation in map(json.loads, body.decode().splitlines()):
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "deletedFile":
                del files[value["path"]]
        commit = self.server.commit(repo, files)
        url = f"{self.server.url}/datasets/{repo}/commit/{commit}"
        self._send_json({"success": True, "commitOid": commit, "commitUrl": url})

    def _called(self) -> str:
        path = unquote(urlsplit(self.path).path)
        self.server.calls.append(f"{self.command} {path}")
        return path

    def _allowed(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {self.server.token}"

    def _refuse(self, status: int, code: str = "") -> None:
        self._send(status, b"{}", {"X-Error-Code": code} if code else {})

    def _send_json(self, content: Any, status: int = 200) -> None:
        self._send(status, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def fake_hub(token: str = "hf_test") -> Iterator[FakeHub]:
    """A running hub for the length of a ``with`` block."""
    with FakeHub(token) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def point_to(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """What HF_ENDPOINT does when huggingface_hub is imported."""
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture(name="hub")
def scripted_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub of our own in place of the real one, and caches of this test's."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no token"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    with fake_hub() as server:
        point_to(monkeypatch, server.url)
        yield server
