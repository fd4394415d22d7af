"""The adversary by files: requests are written for OpenAI's Batch API, and replies read back.

A batch costs half of what single requests do. The same files let another system, or a person, fill in
the replies. All is in one folder: ``requests-0001.jsonl`` and so on are ours; any other ``.jsonl`` file
is read for results, each line either as OpenAI writes it
(``{"custom_id", "response": {"status_code", "body"}, "error"}``) or simply ``{"custom_id", "text"}``.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from overbench_tasks.chat.cache import ReplyCache
from overbench_tasks.chat.endpoint import Request
from overbench_tasks.chat.response import (
    AttemptError,
    ChatReply,
    Failure,
    Outcome,
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

_PREFIX = "requests-"


class BatchPending(OverbenchError):  # noqa: N818  (no error: the run waits)
    """Replies are still to come; says how many, which request files wait for them, and what to do."""

    def __init__(self, folder: Path, files: Sequence[Path], missing: int, found: int, notes: str) -> None:
        super().__init__(
            f"Waiting for {missing:,} of {number_of(missing + found, 'reply')}. Expected result files in "
            f"{folder}, any name but {_PREFIX}*.jsonl. Send these as OpenAI batches (endpoint {URL}) and put "
            "their output and error files there, or have them filled in, one line "
            f'{{"custom_id": ..., "text": ...}} a request: {", ".join(file.name for file in files)}. '
            "Then run again; only what is missing is asked for. Delete a file that will never be answered, "
            f"and its requests are written anew.{notes}"
        )


@dataclass(slots=True)
class Results:
    """What the result files hold.

    Attributes:
        replies: by custom id; of several, the first.
        failures: why there is none, by custom id; of several, the last. ``errors`` counts them.
        final: the custom ids that failed in a way that will not pass.
        problems: how many lines could not be used, by reason.
    """

    replies: dict[str, ChatReply] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    final: set[str] = field(default_factory=set)
    problems: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Take in a line of a result file."""
        try:
            reply = _reply(row)
        except AttemptError as error:
            self.errors[key] += 1
            self.failures[key] = str(error)
            if error.outlook != "passing":
                self.final.add(key)
            return
        if reply is None:
            self.problems["malformed line"] += 1
        elif key in self.replies:
            self.problems["duplicate"] += 1
        else:
            self.replies[key] = reply

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
    """

    def __init__(self, folder: Path, max_retries: int) -> None:
        self._folder = folder
        self._max_retries = max_retries

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

    def ask(self, requests: Sequence[Request], cache: ReplyCache) -> list[Outcome]:
        """One outcome per request, in order, once every reply is there. Trouble in the files is logged.

        Replies go into ``cache``, where those of single requests are too: what either way has
        answered is not asked again.

        Raises:
            BatchPending: replies are missing; request files for them have been written.
            OverbenchError: the folder can't be read or written.
        """
        self.check()
        wanted = {request.key: request for request in requests}
        asked = {file: {key for key, _ in _lines(file, Counter())} for file in self._request_files()}
        known = set(wanted).union(*asked.values())
        results = self._read_results(known)
        kept = cache.replies(sorted(known))
        for key in sorted(results.replies.keys() - kept.keys()):
            cache.add(key, results.replies[key])
        kept |= cache.replies([key for key in wanted if key not in kept])
        given_up = {
            key: Failure(detail)
            for key, detail in results.failures.items()
            if key in results.final or results.errors[key] > self._max_retries
        }
        missing = [key for key in wanted if key not in kept and key not in given_up]
        if missing:
            waiting = _waiting(asked, results)
            out = set().union(*waiting.values()) if waiting else set()
            files = [file for file, keys in waiting.items() if keys.intersection(missing)]
            files += self._write([wanted[key] for key in missing if key not in out])
            raise BatchPending(self._folder, files, len(missing), len(wanted) - len(missing), results.notes())
        if notes := results.notes():
            logger.warning("%s:%s", self._folder, notes)
        return [kept.get(request.key) or given_up[request.key] for request in requests]

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

    def _read_results(self, known: set[str]) -> Results:
        results = Results()
        for file in sorted(set(self._folder.glob("*.jsonl")).difference(self._request_files())):
            for key, row in _lines(file, results.problems):
                if key in known:
                    results.add(key, row)
                else:
                    results.problems["unknown custom id"] += 1
        return results


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


def _waiting(asked: dict[Path, set[str]], results: Results) -> dict[Path, set[str]]:
    """The request files from which nothing has come back yet, with the custom ids they wait for.

    A file counts as come back when one of its requests has; what is still missing of it then is lost,
    as where a batch expired. A request that was asked for the n-th time waits for its n-th line.
    """
    times: Counter[str] = Counter()
    waiting = {}
    for file, keys in sorted(asked.items()):
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
        raise OverbenchError(f"{file} can't be read: {error}. Mend that or take the file away.") from error
    for line in filter(bytes.strip, data.removeprefix(b"\xef\xbb\xbf").split(b"\n")):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and isinstance(row.get("custom_id"), str):
            yield row["custom_id"], row
        else:
            problems["malformed line"] += 1
