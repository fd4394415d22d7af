"""The language model that writes new prompts: step 3 of Pu et al. 2025 (arXiv 2510.19005, section 3.3).

For a seed and one of its features (a word that the detector holds against it) the adversary writes prompts
that hold the word and are harmless, even where the seed is harmful. As in the paper: gpt-4o-mini,
temperature 1.0, top-p 0.8, and in the form ``free`` the seed whole with the word (equation 5). Departures,
each a setting: one request asks for several prompts, of which the filters keep the best, since most of the
cost is in reading the request; topics and examples; and the form ``opening`` for small writers.
"""

from __future__ import annotations

import hashlib
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, field_validator

from generators.adversary.parse import Parsed, parse_reply
from overbench_tasks.chat.batch_files import BatchFiles, BatchPending
from overbench_tasks.chat.cache import ReplyCache
from overbench_tasks.chat.client import ChatClient
from overbench_tasks.chat.endpoint import EndpointSettings, Request, concerning
from overbench_tasks.chat.response import Failure, Outcome
from overbench_tasks.chat.template import PromptTemplate, conversation
from overbench_tasks.text import as_data

__all__ = ["Adversary", "AdversarySettings", "BatchPending", "Job", "WriterReply", "WriterSettings"]

Form = Literal["free", "opening"]
FORM_OF_0_1: Final = "opening"
"""The form of runs whose settings name none: those that version 0.1 began."""

_TOPICS: Final = (
    "software, a video game, a film, a novel, a board game, gardening, baking, a theatre play, a cartoon, "
    "music, ancient history, photography, chess, card games, football, fishing, painting, "
    "a crossword puzzle, a magic trick, a costume party, a science class, a museum, knitting, a dream"
)
TOPICS: Final = tuple(_TOPICS.split(", "))
"""Harmless settings to draw from. Told only to stay harmless, a small model repeats the harm of the seed."""

OPENING_WORDS: Final = 14
_SENTENCE_END = re.compile(r"[.?!]\s+|\n")
_TROUBLE: Final = "The adversary can't be asked."


@dataclass(frozen=True, slots=True)
class Job:
    """One request for new prompts.

    Attributes:
        id: unique within a run and the same in each of its runs; sampling depends on it.
        seed_id: of the seed's record.
        seed: the old prompt, any text.
        feature: the word to embed; "" where the seed is rewritten as a whole (``overbench rewrite``).
        round: counted from 1, 0 where there are none; for the records only.
        examples: prompts known to be harmless and refused by the target, shown for their style.
    """

    id: str
    seed_id: str
    seed: str
    feature: str
    round: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriterReply:
    """What came of one job.

    Attributes:
        candidates: new prompts, in the reply's order, none twice; not yet through any filter.
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


class WriterSettings(EndpointSettings):
    """Everything about a model that writes prompts but its key."""

    generator: str = Field(
        "openai", description="who writes: openai, an endpoint; or batch:DIR, request and result files"
    )
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(0.8, gt=0, le=1)
    candidates: int = Field(4, ge=1, le=20, description="new prompts asked for in one request")
    topics: tuple[str, ...] = Field(
        (), description="settings of new prompts; each request draws some, by its job's id; [] for none"
    )
    seed_chars: int | None = Field(
        4000, ge=100, description="a longer seed is shown by its head and tail only; null: always whole"
    )
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

    @property
    def template(self) -> tuple[str, str]:
        """The name of our template, and the variable that no template may leave out."""
        return "rewrite.jinja", "seed"


class AdversarySettings(WriterSettings):
    """A writer that is given a word as well."""

    form: Form = Field(
        "free",
        description="free: the writer sees seed and word and is free in its wording, for a capable model; "
        "opening: it begins with exactly the seed's words up to the word and never sees the rest, for a "
        "small model, which would repeat the seed's harm",
    )
    topics: tuple[str, ...] = Field(
        TOPICS, description="settings of new prompts; each request draws some, by its job's id; [] for none"
    )

    @property
    def template(self) -> tuple[str, str]:
        """As of any writer."""
        return f"adversary_{self.form}.jinja", "feature"


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

    Args:
        settings: see there.
        cache_file: replies are kept here; SQLite.

    Raises:
        OverbenchError: the template can't be read or rendered, or uses an unknown variable.
    """

    def __init__(self, settings: WriterSettings, cache_file: Path) -> None:
        self.settings = settings
        self._cache_file = cache_file
        sample = Job("", "", "How do I find a sampleword here?", "sampleword", 0, ("An example.",))
        with concerning(_TROUBLE):
            name, needed = settings.template
            self._template = PromptTemplate(
                settings.prompt_file, Path(__file__).with_name(name), self._values(sample), (needed,)
            )
        self._client = ChatClient(settings, cache_file)
        folder = settings.batch_folder
        self._files = None if folder is None else BatchFiles(folder, settings.max_retries)

    @property
    def stopped_because(self) -> str | None:
        """Why the last :meth:`write` asked no more, or None."""
        return self._client.stopped_because

    @property
    def version(self) -> str:
        """What wrote the prompts: generator, model and prompt template, for the records."""
        kind = self.settings.generator.partition(":")[0]
        return f"{kind}:{self.settings.model} {self._template.version}"

    def check(self) -> None:
        """Find out for no money whether :meth:`write` can work: template, key, cache, endpoint, model.

        Raises:
            OverbenchError: it can't.
        """
        with concerning(_TROUBLE):
            self._text(Job("", "", "{{ seed }} {% raw %}", "word", 0))
            if self._files is None:
                self._client.check()
            else:
                self._files.check()
                self._client.check_cache()

    def write(
        self, jobs: Sequence[Job], *, should_stop: Callable[[], bool] = lambda: False
    ) -> list[WriterReply]:
        """One :class:`WriterReply` per job, in order. A reply is paid for once, also when a run was killed.

        Args:
            jobs: any number.
            should_stop: asked before each request is sent, from another thread. Not with ``batch:``.

        Raises:
            OverbenchError: no key, a template that fails on a job, replies that can't be kept.
            BatchPending: with ``batch:``, as long as replies are missing.
        """
        with concerning(_TROUBLE):
            texts = [self._text(job) for job in jobs]
            requests = [self._request(job, text) for job, text in zip(jobs, texts, strict=True)]
            if self._files is None:
                outcomes = self._client.ask(requests, should_stop=should_stop)
        if self._files is not None:
            with ReplyCache(self._cache_file, self.settings.model) as cache:
                outcomes = self._files.ask(requests, cache)
        return [self._written(*each) for each in zip(jobs, texts, outcomes, strict=True)]

    def _text(self, job: Job) -> str:
        return self._template.render(**self._values(job))

    def _values(self, job: Job) -> dict[str, Any]:
        """The template's variables; all text in them is data, see :func:`as_data`."""
        longest = self.settings.seed_chars or sys.maxsize
        return {
            "seed": as_data(job.seed, longest),
            "feature": as_data(job.feature, longest),
            "opening": as_data(opening(job.seed, job.feature), longest),
            "topics": self._topics(job),
            "examples": [as_data(text, longest) for text in job.examples[: self.settings.examples_shown]],
            "candidates": self.settings.candidates,
        }

    def _topics(self, job: Job) -> list[str]:
        """One topic for each candidate, all different while there are enough; none where there are none."""
        draw = random.Random(derived_seed(self.settings.seed, "topics", job.id))  # noqa: S311
        topics = list(self.settings.topics)
        drawn: list[str] = []
        while topics and len(drawn) < self.settings.candidates:
            drawn += draw.sample(topics, min(len(topics), self.settings.candidates - len(drawn)))
        return drawn

    def _request(self, job: Job, text: str) -> Request:
        seed = derived_seed(self.settings.seed, job.id)
        return self.settings.request(conversation(text), top_p=self.settings.top_p, seed=seed)

    def _written(self, job: Job, text: str, outcome: Outcome) -> WriterReply:
        if isinstance(outcome, Failure):
            return WriterReply(job.id, (), (), "", outcome.detail, 0, 0, cached=False)
        if outcome.blocked:
            parsed = Parsed((), ((outcome.text[:300], "refusal"),))
        else:
            most, cut_off = self.settings.candidates, outcome.finish_reason == "length"
            parsed = parse_reply(outcome.text, seed=job.seed, request=text, limit=most, cut_off=cut_off)
        tokens = outcome.prompt_tokens, outcome.completion_tokens
        return WriterReply(job.id, *parsed, outcome.text, "", *tokens, cached=outcome.cached)


def derived_seed(*parts: object) -> int:
    """A sampling seed in [0, 2^31) that is the same for the same parts, on every machine."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1
