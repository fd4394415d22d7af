"""Requests to a model by files: they are written for OpenAI's Batch API, and replies are read back.

A batch costs half of what single requests do. Another system, or a person, can fill in the same files. One
folder holds everything. ``requests-0001.jsonl`` and its successors are ours. Every other ``.jsonl`` file is
read for results. A line of results has OpenAI's form
(``{"custom_id", "response": {"status_code", "body"}, "error"}``) or is ``{"custom_id", "text"}``.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from overbench_tasks.chat.cache import ReplyCache
from overbench_tasks.chat.endpoint import Request
from overbench_tasks.chat.response import (
    AttemptError,
    ChatReply,
    Failure,
    RequestResult,
    failed_response,
    read_completion,
)
from overbench_tasks.errors import OverbenchError
from overbench_tasks.tables import whole_file
from overbench_tasks.text import encodable, number_of

logger = logging.getLogger(__name__)

URL: Final = "/v1/chat/completions"
MAX_REQUESTS: Final = 50_000
MAX_BYTES: Final = 200_000_000
"""What OpenAI takes in one file (Batch API guide, rate limits)."""
MALFORMED: Final = "malformed line"

_PREFIX = "requests-"

_FileState = tuple[Path, int, int]
"""A file, its size and its time of change."""
AnswerOf = Callable[[ChatReply], str | None]
"""What a reply answers, such as a judge's label; None where it answers nothing."""


class BatchPending(OverbenchError):  # noqa: N818  (no error: the run waits)
    """Replies are still to come. The message says how many, for which request files, and what to do."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: start the same command again later

    def __init__(self, folder: Path, files: Sequence[Path], missing: int, present: int, notes: str) -> None:
        super().__init__(
            f"Waiting for {missing:,} of {number_of(missing + present, 'reply')}. Expected result files in "
            f"{folder}, any name but {_PREFIX}*.jsonl. Send these as OpenAI batches (endpoint {URL}) and put "
            "their output and error files there, or have them filled in, one line "
            f'{{"custom_id": ..., "text": ...}} a request: {", ".join(file.name for file in files)}. '
            "Then run again; only what is missing is asked for. Delete a file that will never be answered, "
            f"and its requests are written anew.{notes}"
        )


@dataclass(slots=True)
class Results:
    """The contents of the result files.

    Attributes:
        answer_of: see :class:`BatchFiles`.
        replies: custom id -> the first reply.
        failures: custom id -> the last reason for a missing reply. ``errors`` counts them.
        final: the custom ids that failed in a way that will not pass; ``blocked`` those of them that the
            provider withheld.
        contradicted: the custom ids whose lines answer different things.
        problems: how many lines could not be used, by reason.
    """

    answer_of: AnswerOf | None = None
    replies: dict[str, ChatReply] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    final: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    contradicted: set[str] = field(default_factory=set)
    problems: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Take in a line of a result file."""
        try:
            reply = _reply(row)
            if reply is not None and self.answer_of is not None:
                _check_answer(reply, self.answer_of)
        except AttemptError as error:
            self._add_failure(key, error)
            return
        if reply is None:
            self.problems[MALFORMED] += 1
        elif key not in self.replies:
            self.replies[key] = reply
        else:
            self.problems["duplicate"] += 1
            if self.answer_of is not None and self.answer_of(reply) != self.answer_of(self.replies[key]):
                self.contradicted.add(key)
                self._add_failure(key, AttemptError("lines that contradict each other", "lost"))

    def _add_failure(self, key: str, error: AttemptError) -> None:
        self.errors[key] += 1
        self.failures[key] = str(error)
        if error.outlook != "passing":
            self.final.add(key)
        if error.outlook == "blocked":
            self.blocked.add(key)

    def drop_contradictions(self) -> None:
        """Take out the replies of requests whose lines contradict each other: none of them can be trusted."""
        for key in self.contradicted:
            del self.replies[key]

    def notes(self) -> str:
        """The trouble in the result files in one sentence, or ""."""
        parts = [number_of(count, reason) for reason, count in sorted(self.problems.items())]
        lost = Counter(detail for key, detail in self.failures.items() if key not in self.replies)
        parts += [f"{count:,} failed with {detail}" for detail, count in lost.most_common(3)]
        return f" In the result files: {'; '.join(parts)}." if parts else ""


class BatchFiles:
    """A folder of requests and replies.

    Args:
        folder: made where it is missing.
        max_retries: further error lines that may pass before a request counts as failed.
        answer_of: what a reply answers. A reply that answers nothing counts as an error that may pass, and
            replies to one request with different answers as an error that will not. None: every reply
            counts, and of several the first.

    Attributes:
        waiting: what all calls so far wait for; None where nothing is missing.
    """

    def __init__(self, folder: Path, max_retries: int, answer_of: AnswerOf | None = None) -> None:
        self._folder = folder
        self._max_retries = max_retries
        self._answer_of = answer_of
        self._wanted: set[str] = set()
        self._missing: set[str] = set()
        self._logged = ""
        # What was read of the files, so that a long run of calls reads no file twice.
        self._written: dict[_FileState, set[str]] = {}
        self._results_of: tuple[list[_FileState], set[str]] = ([], set())
        self._results = Results()
        self.waiting: BatchPending | None = None

    def check(self) -> None:
        """Raises OverbenchError where the folder can't be written."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            probe = self._folder / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise OverbenchError(
                f"Batches can't be written to {self._folder}: {error}. Expected a folder that can be written."
            ) from error

    def ask(self, requests: Sequence[Request], cache: ReplyCache) -> list[RequestResult]:
        """One result per request, in order, once every reply is there. Trouble in the files is logged.

        Raises:
            BatchPending: replies are missing; request files for them have been written.
            OverbenchError: the folder can't be read or written.
        """
        request_results = self.collect(requests, cache)
        if self.waiting is not None and any(request.key not in request_results for request in requests):
            raise self.waiting
        return [request_results[request.key] for request in requests]

    def collect(self, requests: Sequence[Request], cache: ReplyCache) -> dict[str, RequestResult]:
        """The results so far, by the key of the request. ``waiting`` says what is missing.

        Replies go into ``cache``, where those of single requests are too: what either way has
        answered is not asked again. Request files are written for what is in none yet. Where nothing is
        missing, trouble in the result files is logged; else ``waiting`` says it.

        Raises:
            OverbenchError: the folder can't be read or written.
        """
        self.check()
        wanted = {request.key: request for request in requests}
        written = {file: self._keys_in(file) for file in self._request_files()}
        results, are_new = self._current_results(set(wanted).union(*written.values()))
        keys = self._results_of[1] if are_new else wanted.keys()
        kept = self._usable(cache.replies(sorted(keys)))
        for key in sorted((results.replies.keys() & keys) - kept.keys()):
            cache.add(key, results.replies[key])
            kept[key] = replace(results.replies[key], cached=True)
        request_results: dict[str, RequestResult] = {
            key: Failure(detail, key in results.blocked)
            for key, detail in results.failures.items()
            if key in results.final or results.errors[key] > self._max_retries
        }
        request_results |= kept
        self._wanted |= wanted.keys()
        self._missing = (self._missing | wanted.keys()) - request_results.keys()
        self.waiting = None
        if not self._missing:
            if (notes := results.notes()) and notes != self._logged:
                logger.warning("%s:%s", self._folder, notes)
                self._logged = notes
            return request_results
        waiting = _waiting(written, results)
        sent = set().union(*waiting.values()) if waiting else set()
        files = [file for file, file_keys in waiting.items() if file_keys & self._missing]
        files += self._write([wanted[key] for key in wanted if key in self._missing and key not in sent])
        present = len(self._wanted) - len(self._missing)
        self.waiting = BatchPending(self._folder, files, len(self._missing), present, results.notes())
        return request_results

    def _usable(self, replies: dict[str, ChatReply]) -> dict[str, ChatReply]:
        """Those of ``replies`` that answer something."""
        answer_of = self._answer_of
        if answer_of is None:
            return replies
        return {key: reply for key, reply in replies.items() if answer_of(reply) is not None}

    def _request_files(self) -> list[Path]:
        return sorted(self._folder.glob(f"{_PREFIX}*.jsonl"))

    def _write(self, requests: Sequence[Request]) -> list[Path]:
        """New request files, each there in full or not at all."""
        taken = [int(digits) for f in self._request_files() if (digits := f.stem[len(_PREFIX) :]).isdecimal()]
        files = []
        for number, lines in enumerate(_portions(requests), max(taken, default=0) + 1):
            file = self._folder / f"{_PREFIX}{number:04}.jsonl"
            try:
                with whole_file(file, sync=True) as out:
                    out.writelines(lines)
            except OSError as error:
                raise OverbenchError(
                    f"The batch {file} can't be written: {error}. Make room and run again."
                ) from error
            files.append(file)
        return files

    def _keys_in(self, file: Path) -> set[str]:
        """The custom ids of a request file."""
        state = _state_of(file)
        if state not in self._written:
            self._written[state] = {key for key, _ in _lines(file, Counter())}
        return self._written[state]

    def _current_results(self, keys: set[str]) -> tuple[Results, bool]:
        """What the result files hold for the requests of these keys, and whether that was read just now."""
        files = sorted(set(self._folder.glob("*.jsonl")).difference(self._request_files()))
        states = [_state_of(file) for file in files]
        read_before, keys_before = self._results_of
        if states == read_before and (keys <= keys_before or not files):
            return self._results, False
        self._results, self._results_of = self._read_results(files, keys), (states, keys)
        return self._results, True

    def _read_results(self, files: Sequence[Path], keys: set[str]) -> Results:
        results = Results(self._answer_of)
        for file in files:
            for key, row in _lines(file, results.problems):
                if key in keys:
                    results.add(key, row)
                else:
                    results.problems["unknown custom id"] += 1
        results.drop_contradictions()
        return results


def _check_answer(reply: ChatReply, answer_of: AnswerOf) -> None:
    """Raises AttemptError where a reply answers nothing."""
    if reply.blocked:
        raise AttemptError("the provider withheld the answer", "blocked")
    if answer_of(reply) is None:
        raise AttemptError("an answer that can't be read", "passing")


def _portions(requests: Sequence[Request]) -> Iterator[list[str]]:
    """The lines of each request file."""
    lines: list[str] = []
    size = 0
    for request in requests:
        row = {"custom_id": request.key, "method": "POST", "url": URL, "body": json.loads(request.data)}
        line = json.dumps(row) + "\n"  # ASCII: as many bytes as characters
        if lines and (len(lines) == MAX_REQUESTS or size + len(line) > MAX_BYTES):
            yield lines
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield lines


def _state_of(file: Path) -> _FileState:
    try:
        status = file.stat()
    except OSError as error:
        raise OverbenchError(f"{file} can't be read: {error}. Correct that or take the file away.") from error
    return file, status.st_size, status.st_mtime_ns


def _waiting(written: dict[Path, set[str]], results: Results) -> dict[Path, set[str]]:
    """The request files without any answer yet, with the custom ids that they wait for."""
    times: Counter[str] = Counter()
    waiting = {}
    for file, keys in sorted(written.items()):
        times.update(keys)
        if not any(key in results.replies or results.errors[key] >= times[key] for key in keys):
            waiting[file] = keys
    return waiting


def _reply(row: dict[str, Any]) -> ChatReply | None:
    """The reply in a line; None where it has neither of the two forms."""
    text, response, error = row.get("text"), row.get("response"), row.get("error")
    if isinstance(text, str):
        return ChatReply(encodable(text), "", 0, 0)
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        status, body = response["status_code"], json.dumps(response.get("body")).encode()
        if status == 200:
            return read_completion(body)
        raise failed_response(status, body)
    if error:
        code = error.get("code") if isinstance(error, dict) else error
        raise AttemptError(str(code)[:100], "passing")  # batch_expired, batch_cancelled
    return None


def _lines(file: Path, problems: Counter[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(custom id, JSON object) of each line that has both; other lines that aren't blank are counted."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise OverbenchError(f"{file} can't be read: {error}. Correct that or take the file away.") from error
    for line in filter(bytes.strip, data.removeprefix(b"\xef\xbb\xbf").split(b"\n")):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and isinstance(row.get("custom_id"), str):
            yield row["custom_id"], row
        else:
            problems[MALFORMED] += 1
