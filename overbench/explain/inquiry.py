"""Questions to a target, each asked once: replies are on file as soon as they came, and labelled."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from generators.targets.reply_file import ReplyFile
from generators.targets.target import Question
from overbench_tasks.labellers.labeller import Labeller
from overbench_tasks.records import Verdict


class AnswersQuestions(Protocol):
    """A :class:`~generators.targets.target.Target`, or a scripted one in a test."""

    @property
    def name(self) -> str: ...
    @property
    def decoding(self) -> str: ...
    def replies(self, prompts: Sequence[str]) -> list[str]: ...
    def answers(
        self, questions: Sequence[Question], on_reply: Callable[[int, str], object] | None = None
    ) -> list[str]: ...
    def log_probabilities(self, replies: Sequence[tuple[Question, str]]) -> list[float]: ...


class TargetRequest(NamedTuple):
    """What is to be known of one question.

    Attributes:
        times: how many replies; the second to the same question is another reply.
        openings: instead of replies the log-probability that one begins with any of these. None of them
            begins with another, so that their probabilities add up.
    """

    question: Question
    times: int = 1
    openings: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """To the backend: each opening is one."""
        return max(self.times, len(self.openings))


@dataclass(frozen=True, slots=True)
class Answer:
    """What came: replies with their verdicts, or a log-probability."""

    replies: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    log_probability: float = 0.0

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(verdict.label for verdict in self.verdicts)

    @property
    def scored(self) -> frozenset[str]:
        """The labels that came, each once; a reply without one is no other answer."""
        return frozenset(self.labels) - {"unscored"}

    @property
    def failed(self) -> int:
        """How many of the requests failed: asked again, they may have a reply."""
        return sum(map(_failed, self.verdicts))

    def mostly(self, label: str) -> bool | None:
        """Whether more than half of the replies have this label; None where those without a label decide."""
        having, unknown = self.labels.count(label), self.labels.count("unscored")
        sure, possible = (2 * count > len(self.labels) for count in (having, having + unknown))
        return sure if sure == possible else None


class Inquiry:
    """Asks a target what is not on file.

    Args:
        target: who is asked.
        labeller: of its replies.
        kept: where the replies are.
        chunk_size: so many requests go to the backend at once, of openings those of one question at least.
            Log-probabilities are on file after each chunk, replies as they come, where the backend tells
            (:meth:`~generators.targets.target.Target.answers`).
        asked: told how many questions were answered now.
        how: what else than name and decoding of the target shapes a reply: it is asked for anew.

    Attributes:
        calls: how many questions were put to the target by this object.
    """

    def __init__(
        self,
        target: AnswersQuestions,
        labeller: Labeller,
        kept: ReplyFile,
        chunk_size: int,
        asked: Callable[[int], object] = lambda count: None,
        how: str = "",
    ) -> None:
        self._target, self._labeller, self._kept = target, labeller, kept
        self._chunk_size, self._asked, self._how = chunk_size, asked, how
        self._verdicts: dict[str, Verdict] = {}
        self.calls = 0

    def answers(self, requests: Sequence[TargetRequest]) -> list[Answer]:
        """One answer per request, in order. A request that failed is made again when it is wanted again.

        Raises:
            OverbenchError: the target can't be asked, or the labeller gave no verdict; what came is kept.
        """
        wanted: dict[str, tuple[Question, tuple[str, ...]]] = {}
        for request in requests:
            for key in self._keys(request):
                wanted[key] = (request.question, request.openings)
        on_file = self._kept.replies(self._target)
        missing = {
            key: question
            for key, question in wanted.items()
            if key not in on_file or _failed(on_file[key][1])
        }
        self._ask(missing)
        unread = {
            key: question.prompt
            for key, (question, openings) in wanted.items()
            if not openings and (key in missing or key not in self._verdicts)
        }
        self._verdicts |= self._kept.verdicts(self._target, unread, self._labeller)
        return [self._answer(request, on_file) for request in requests]

    def _answer(self, request: TargetRequest, on_file: Mapping[str, tuple[str, Verdict | None]]) -> Answer:
        keys = self._keys(request)
        if request.openings:
            return Answer(log_probability=float(on_file[keys[0]][0]))
        return Answer(tuple(on_file[key][0] for key in keys), tuple(self._verdicts[key] for key in keys))

    def _ask(self, missing: dict[str, tuple[Question, tuple[str, ...]]]) -> None:
        plain = [(key, question) for key, (question, openings) in missing.items() if not openings]
        for chunk in _chunks(plain, self._chunk_size):
            keys = [key for key, _ in chunk]
            arrived = _Arrived(keys, self._keep)
            replies = self._target.answers([question for _, question in chunk], arrived)
            self._keep(
                {key: reply for key, reply in zip(keys, replies, strict=True) if key not in arrived.kept}
            )
        begun = [(key, question, openings) for key, (question, openings) in missing.items() if openings]
        for some in _chunks(begun, max(1, self._chunk_size // len(begun[0][2])) if begun else 1):
            pairs = [(question, text) for _, question, texts in some for text in texts]
            log_probabilities = iter(self._target.log_probabilities(pairs))
            self._keep(
                {key: repr(_log_sum([next(log_probabilities) for _ in texts])) for key, _, texts in some}
            )

    def _keep(self, replies: Mapping[str, str]) -> None:
        if replies:
            self._kept.add(self._target, replies)
            self.calls += len(replies)
            self._asked(len(replies))

    def _keys(self, request: TargetRequest) -> list[str]:
        """A key for each reply: over the prompt, the instruction, which reply to them it is, and how."""
        what = [self._how, *request.question, request.openings]
        return [
            hashlib.sha256(json.dumps([*what, number]).encode()).hexdigest()[:24]
            for number in range(request.times)
        ]


class _Arrived:
    """Told of a reply by its place, keeps it under its key."""

    def __init__(self, keys: Sequence[str], keep: Callable[[Mapping[str, str]], None]) -> None:
        self.kept: set[str] = set()
        self._keys, self._keep = keys, keep

    def __call__(self, place: int, reply: str) -> None:
        self._keep({self._keys[place]: reply})
        self.kept.add(self._keys[place])


def _failed(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.reason == "request_failed"


def _chunks(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _log_sum(log_probabilities: Sequence[float]) -> float:
    """The logarithm of the sum of probabilities."""
    highest = max(log_probabilities)
    return highest + math.log(sum(math.exp(value - highest) for value in log_probabilities))
