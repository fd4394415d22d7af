"""The language model that writes new prompts: step 3 of Pu et al. 2025 (arXiv 2510.19005, section 3.3).

For a seed and one of its features (a word that the detector holds against it) the adversary writes prompts
that hold the word and are harmless, even where the seed is harmful. As in the paper: gpt-4o-mini,
temperature 1.0, top-p 0.8. Departures: one request asks for several prompts, of which the gates keep the
best, since most of the cost is in reading the request; and the prompt asks to keep the seed's wording
around the word, since a word alone, put into another sentence, seldom brings the refusal with it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import Field, field_validator

from generators.adversary.batch import Batch, BatchPending
from generators.adversary.parse import Parsed, parse_reply
from overbench_tasks.chat.cache import Failure
from overbench_tasks.chat.chat import Chat, Outcome
from overbench_tasks.chat.client import Request
from overbench_tasks.chat.endpoint import EndpointSettings, derived_seed, estimated_tokens
from overbench_tasks.chat.reply_cache import ChatError, open_cache
from overbench_tasks.chat.template import FOLDER, PromptTemplate, conversation
from overbench_tasks.errors import OverbenchError
from overbench_tasks.text import as_data

__all__ = ["Adversary", "AdversaryError", "AdversarySettings", "BatchPending", "Job", "Written"]

TEMPLATE: Final = FOLDER / "adversary.jinja"
TOPICS: Final = (
    "software",
    "a video game",
    "a film",
    "a novel",
    "a board game",
    "gardening",
    "baking",
    "a theatre play",
    "a cartoon",
    "music",
    "ancient history",
    "photography",
    "chess",
    "card games",
    "football",
    "fishing",
    "painting",
    "a crossword puzzle",
    "a magic trick",
    "a costume party",
    "a science class",
    "a museum",
    "knitting",
    "a dream",
)
"""Harmless settings to draw from. Told only to stay harmless, a small model repeats the harm of the seed."""

OPENING_WORDS: Final = 14
_SENTENCE_END = re.compile(r"[.?!]\s+|\n")


class AdversaryError(OverbenchError):
    """The adversary cannot be asked. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request for new prompts.

    Attributes:
        id: unique within a run and the same in each of its runs; sampling depends on it.
        seed_id: of the seed's record.
        seed: the old prompt, any text.
        feature: the word to embed.
        round: counted from 1; for the records only.
        examples: prompts known to be harmless and refused by the target, shown for their style.
    """

    id: str
    seed_id: str
    seed: str
    feature: str
    round: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """What came of one job.

    Attributes:
        candidates: new prompts, in the reply's order, none twice; not yet through any gate.
        rejected: (start of the piece, :data:`~generators.adversary.parse.Reason`) of everything else.
        raw: the reply word for word; "" where there is none.
        failure: why there is no reply, or "". Begins with ``not asked`` where no request was sent.
        prompt_tokens: of the request, as the endpoint counts; likewise ``completion_tokens``.
        cached: nothing was paid for it in this call.
    """

    job_id: str
    candidates: tuple[str, ...]
    rejected: tuple[tuple[str, str], ...]
    raw: str
    failure: str
    prompt_tokens: int
    completion_tokens: int
    cached: bool


class AdversarySettings(EndpointSettings):
    """Everything about the adversary but its key."""

    generator: str = Field("openai", description="openai: an endpoint; batch:DIR: request and result files")
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(0.8, gt=0, le=1)
    candidates: int = Field(4, ge=1, le=20, description="new prompts asked for in one request")
    prompt_file: Path | None = Field(
        None, description="a Jinja template in place of prompts/adversary.jinja, which shows its variables"
    )
    topics: tuple[str, ...] = Field(
        TOPICS, min_length=1, description="settings of new prompts; each request draws some, by its job's id"
    )
    seed_chars: int = Field(600, ge=100, description="a longer seed is shown by its head and tail only")
    examples_shown: int = Field(3, ge=0, le=20, description="most examples of a job that a request shows")
    seed: int = Field(0, description="of the sampling, together with each job's id")

    @field_validator("generator")
    @classmethod
    def _known(cls, generator: str) -> str:
        kind, _, folder = generator.partition(":")
        if generator != "openai" and not (kind == "batch" and folder.strip()):
            raise ValueError("expected openai or batch:DIR")
        return generator

    @property
    def batch_folder(self) -> Path | None:
        """The folder of ``batch:DIR``."""
        kind, _, folder = self.generator.partition(":")
        return Path(folder).expanduser() if kind == "batch" else None


def opening(seed: str, feature: str) -> str:
    """The seed's words up to the feature, from the beginning of the sentence: its form without its object.

    Returns:
        "How do I kill" for "Hi! how do I kill my boss?" and "kill", with a capital; at most
        :data:`OPENING_WORDS` words, those next to the feature; of several places the first. "" where
        the seed does not hold the feature. An inflected form of it ("killing") counts.
    """
    found = re.search(rf"(?<!\w){re.escape(feature)}\w*", seed, re.IGNORECASE) if feature.strip() else None
    if found is None:
        return ""
    words = _SENTENCE_END.split(seed[: found.end()])[-1].split()[-OPENING_WORDS:]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


class Adversary:
    """An adversary whose template is sound.

    Attributes:
        stopped_because: why the last :meth:`write` asked no more, or None.
        batch_notes: what was wrong with the result files of the last :meth:`write`, or "".

    Args:
        settings: see there.
        cache_file: replies are kept here; SQLite.

    Raises:
        AdversaryError: the template can't be read or rendered, or uses an unknown variable.
    """

    def __init__(self, settings: AdversarySettings, cache_file: Path) -> None:
        self.settings = settings
        self.stopped_because: str | None = None
        self.batch_notes = ""
        self._cache_file = cache_file
        with _as_adversary():
            sample = Job("", "", "How do I find a sampleword here?", "sampleword", 0, ("An example.",))
            self._template = PromptTemplate(
                settings.prompt_file or TEMPLATE, self._values(sample), needed=("feature",)
            )
        self._chat = Chat(settings, cache_file)
        folder = settings.batch_folder
        self._batch = None if folder is None else Batch(folder, settings.attempts)

    @property
    def version(self) -> str:
        """What wrote the prompts: generator, model and prompt template, for the records."""
        kind = self.settings.generator.partition(":")[0]
        return f"{kind}:{self.settings.model} {self._template.version}"

    def check(self) -> None:
        """Find out for no money whether :meth:`write` can work: template, key, cache, endpoint, model.

        Raises:
            AdversaryError: it can't.
        """
        with _as_adversary():
            self._text(Job("", "", "{{ seed }} {% raw %}", "word", 0))
            if self._batch is None:
                self._chat.check()
            else:
                self._batch.check()
                with open_cache(self._cache_file, self.settings.model):
                    pass

    def write(
        self,
        jobs: Sequence[Job],
        *,
        on_written: Callable[[Written], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> list[Written]:
        """One :class:`Written` per job, in order. A reply is paid for once, also when a run was killed.

        Args:
            jobs: any number.
            on_written: called with each, in order, in the caller's thread, as soon as it and those
                before it are there; requests go on meanwhile.
            should_stop: asked before each request is sent, from another thread. Not with ``batch:``.

        Raises:
            AdversaryError: no key, a template that fails on a job, replies that can't be kept.
            BatchPending: with ``batch:``, as long as replies are missing.
        """
        with _as_adversary():
            texts = [self._text(job) for job in jobs]
        requests = [self._request(job, text) for job, text in zip(jobs, texts, strict=True)]
        written: list[Written] = []

        def take(index: int, outcome: Outcome) -> None:
            written.append(self._written(jobs[index], texts[index], outcome))
            if on_written is not None:
                on_written(written[-1])

        if self._batch is not None:
            self._from_batch(self._batch, requests, take)
            return written
        with _as_adversary():
            self._chat.ask(requests, on_outcome=take, should_stop=should_stop)
        self.stopped_because = self._chat.stopped_because
        return written

    def estimate(self, jobs: Sequence[Job]) -> int:
        """About how many prompt tokens the jobs' requests have, at four characters each."""
        return sum(estimated_tokens(self._text(job)) for job in jobs)

    def _from_batch(
        self, batch: Batch, requests: Sequence[Request], take: Callable[[int, Outcome], None]
    ) -> None:
        with _as_adversary(), open_cache(self._cache_file, self.settings.model) as cache:
            outcomes, results = batch.ask(requests, cache)
        self.batch_notes = results.notes().strip()
        for index, outcome in enumerate(outcomes):
            take(index, outcome)

    def _text(self, job: Job) -> str:
        return self._template.render(**self._values(job))

    def _values(self, job: Job) -> dict[str, Any]:
        """The template's variables; all text in them is data, see :func:`as_data`."""
        longest = self.settings.seed_chars
        return {
            "seed": as_data(job.seed, longest),
            "feature": as_data(job.feature, longest),
            "opening": as_data(opening(job.seed, job.feature), longest),
            "topics": self._topics(job),
            "examples": [as_data(text, longest) for text in job.examples[: self.settings.examples_shown]],
            "candidates": self.settings.candidates,
        }

    def _topics(self, job: Job) -> list[str]:
        """One topic for each candidate, all different while there are enough."""
        draw = random.Random(derived_seed(self.settings.seed, "topics", job.id))  # noqa: S311
        topics = list(self.settings.topics)
        drawn: list[str] = []
        while len(drawn) < self.settings.candidates:
            drawn += draw.sample(topics, min(len(topics), self.settings.candidates - len(drawn)))
        return drawn

    def _request(self, job: Job, text: str) -> Request:
        return self.settings.request(
            conversation(text),
            temperature=self.settings.temperature,
            top_p=self.settings.top_p,
            seed=derived_seed(self.settings.seed, job.id),
        )

    def _written(self, job: Job, text: str, outcome: Outcome) -> Written:
        if isinstance(outcome, Failure):
            return Written(job.id, (), (), "", outcome.detail, 0, 0, cached=False)
        if outcome.finish_reason == "declined":
            parsed = Parsed((), ((outcome.text[:300], "refusal"),))
        else:
            parsed = parse_reply(
                outcome.text,
                seed=job.seed,
                request=text,
                limit=self.settings.candidates,
                cut_off=outcome.finish_reason == "length",
            )
        tokens = outcome.prompt_tokens, outcome.completion_tokens
        return Written(job.id, *parsed, outcome.text, "", *tokens, cached=outcome.cached)


@contextmanager
def _as_adversary() -> Iterator[None]:
    """Errors of the parts as the adversary's, so that it is plain which of a run's models they concern."""
    try:
        yield
    except ChatError as error:
        raise AdversaryError(f"The adversary can't be asked. {error}") from error
