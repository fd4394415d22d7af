"""The benign gate: is a new prompt harmless for anyone to ask and to answer?

One or more language models vote, or a classifier from the hub does, or nobody, which must be said. Every
vote is kept. A judge that can't be read or can't be reached has not voted benign: its vote is ``unscored``.
Not in the paper, which leaves filtering to the detector (Pu et al. 2025, section 3.3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from generators.gates.moderation_classifier import (
    ClassifierModel,
    ModerationClassifier,
    ModerationError,
    Vote,
    VoteWord,
)
from overbench_tasks.chat.cache import Failure
from overbench_tasks.chat.chat import Chat, Outcome
from overbench_tasks.chat.endpoint import EndpointSettings, estimated_tokens
from overbench_tasks.chat.reply_cache import ChatError
from overbench_tasks.chat.template import FOLDER, PromptTemplate, conversation
from overbench_tasks.errors import OverbenchError
from overbench_tasks.text import as_data, without_reasoning

__all__ = [
    "ClassifierModel",
    "JudgeSettings",
    "ModerationError",
    "ModerationSettings",
    "Moderator",
    "Vote",
    "benign",
    "parse_vote",
]

TEMPLATE: Final = FOLDER / "moderation.jinja"
UNMODERATED: Final = "unmoderated"
"""What records hold in place of votes where nobody votes."""

Form = Literal["verdict", "letter"]

_VERDICT = re.compile(r"VERDICT: (benign|harmful)\.?")
_LETTER = re.compile(r"([AB])[.)]?(?: (?:benign|harmful)\.?)?")
_LETTERS: Final[dict[str, VoteWord]] = {"A": "benign", "B": "harmful"}
_SAMPLE_PROMPT = "a sample prompt"


class JudgeSettings(EndpointSettings):
    """One language model that votes."""

    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(16, ge=1, description="of the vote; more for a model that reasons first")
    form: Form = Field(
        "letter",
        description="letter: A or B alone; verdict: a last line 'VERDICT: benign|harmful'. A model of 1.5B "
        "tells the kinds apart by letter, and calls nearly all harmful by verdict",
    )
    prompt_file: Path | None = Field(
        None, description="a Jinja template with prompt and answer (the form); default: ours"
    )
    prompt_chars: int = Field(2000, ge=100, description="of a longer prompt head and tail are judged")


class ModerationSettings(BaseModel):
    """Who votes: ``judges``, a ``classifier``, or with ``none`` nobody. Exactly one of the three."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judges: tuple[JudgeSettings, ...] = Field((), description="models that vote; the majority counts")
    classifier: ClassifierModel | None = Field(None, description="a model of the hub in their place")
    none: bool = Field(False, description="no moderation; records say so")

    @model_validator(mode="after")
    def _one_kind(self) -> ModerationSettings:
        kinds = [bool(self.judges), self.classifier is not None, self.none]
        if sum(kinds) != 1:
            raise ValueError(
                f"expected one of judges, classifier or none: true, got {sum(kinds)} of them; "
                "to go without moderation, say none: true"
            )
        return self


def benign(votes: Sequence[Vote]) -> bool:
    """Whether a strict majority of all votes says benign. Ties reject; unscored counts as not benign."""
    return 2 * sum(vote.verdict == "benign" for vote in votes) > len(votes)


def parse_vote(answer: str, form: Form) -> VoteWord:
    """The verdict in a judge's answer, ``unscored`` where there is none.

    ``verdict``: the last line that isn't blank is ``VERDICT: benign`` or ``VERDICT: harmful``, with at
    most a full stop behind. ``letter``: the whole answer is ``A`` or ``B``, with at most a full stop
    or bracket and the word behind it, which must be the right one.
    """
    text = without_reasoning(answer).strip()
    if form == "verdict":
        match = _VERDICT.fullmatch(text.rpartition("\n")[2].strip(" \t\r"))
        return "unscored" if match is None else _word(match[1])
    match = _LETTER.fullmatch(text)
    if match is None:
        return "unscored"
    word = _LETTERS[match[1]]
    other: VoteWord = "harmful" if word == "benign" else "benign"
    return "unscored" if other in match[0] else word


def _word(word: str) -> VoteWord:
    return "benign" if word == "benign" else "harmful"


class Moderator:
    """Whoever votes, ready to be asked.

    Args:
        settings: see there.
        cache_file: what judges say is kept here; SQLite.

    Raises:
        ModerationError: a judge's template can't be used.
    """

    def __init__(self, settings: ModerationSettings, cache_file: Path) -> None:
        self.settings = settings
        with _as_moderation():
            self._judges = [_Judge(one, cache_file) for one in settings.judges]
        self._classifier = None if settings.classifier is None else ModerationClassifier(settings.classifier)

    @property
    def unmoderated(self) -> bool:
        """Nobody votes: every prompt passes, and records say :data:`UNMODERATED`."""
        return self.settings.none

    @property
    def version(self) -> str:
        """Who votes, to the model and the template, for the records."""
        voters = [f"{judge.name} {judge.version}" for judge in self._judges]
        if self._classifier is not None:
            voters.append(self._classifier.name)
        return ", ".join(voters) or UNMODERATED

    def check(self) -> None:
        """Find out for no money whether :meth:`votes` can work: keys, endpoints, models, labels.

        Raises:
            ModerationError: it can't.
        """
        with _as_moderation():
            for judge in self._judges:
                judge.chat.check()
            if self._classifier is not None:
                self._classifier.check()

    def votes(
        self, prompts: Sequence[str], *, on_vote: Callable[[], object] | None = None
    ) -> list[tuple[Vote, ...]]:
        """The votes on each prompt, in order, one of each judge; empty tuples where nobody votes.

        Args:
            prompts: any text.
            on_vote: called once for each vote, for a progress bar.

        Raises:
            ModerationError: no key, a model that can't be loaded; or a judge's endpoint turned all
                requests away, since prompts must not be rejected for that. What was said is kept.
        """
        columns: list[list[Vote]] = []
        with _as_moderation():
            for judge in self._judges:
                columns.append(judge.votes(prompts, on_vote))
            if self._classifier is not None:
                columns.append(self._classifier.votes(prompts))
        return [tuple(column[place] for column in columns) for place in range(len(prompts))]

    def close(self) -> None:
        """Free a classifier's memory; it is loaded again when needed."""
        if self._classifier is not None:
            self._classifier.close()

    def passes(self, votes: Sequence[Vote]) -> bool:
        """Whether the prompt goes on: :func:`benign`, or always where nobody votes."""
        return self.unmoderated or benign(votes)

    def estimate(self, prompts: Sequence[str]) -> int:
        """About how many prompt tokens the judges' requests have; none for a classifier."""
        return sum(estimated_tokens(judge.text(prompt)) for judge in self._judges for prompt in prompts)


class _Judge:
    def __init__(self, settings: JudgeSettings, cache_file: Path) -> None:
        self._settings = settings
        self._template = PromptTemplate(
            settings.prompt_file or TEMPLATE,
            {"prompt": _SAMPLE_PROMPT, "answer": settings.form},
            ("prompt",),
        )
        asked = conversation(self._template.render(prompt="x", answer=settings.form))[-1]["content"]
        if parse_vote(asked, settings.form) != "unscored":
            raise ChatError(
                f"The prompt template {settings.prompt_file} ends in a verdict, so that a judge which "
                "repeats it would be taken at its word. Put a sentence behind it."
            )
        self.chat = Chat(settings, cache_file)
        self.name = f"judge:{settings.model}"
        self.version = f"{self._template.version} {settings.form}"

    def text(self, prompt: str) -> str:
        shown = as_data(prompt, self._settings.prompt_chars)
        return self._template.render(prompt=shown, answer=self._settings.form)

    def votes(self, prompts: Sequence[str], on_vote: Callable[[], object] | None) -> list[Vote]:
        requests = [
            self._settings.request(conversation(self.text(prompt)), temperature=self._settings.temperature)
            for prompt in prompts
        ]

        def arrived(_: int, __: Outcome) -> None:
            if on_vote is not None:
                on_vote()

        outcomes = self.chat.ask(requests, on_outcome=arrived)
        if self.chat.stopped_because:
            have = sum(not isinstance(outcome, Failure) for outcome in outcomes)
            raise ChatError(
                f"{self.name} stopped answering: {self.chat.stopped_because}. It has voted on {have:,} of "
                f"{len(prompts):,} prompts, which is kept. Mend this and run again."
            )
        return [self._vote(outcome) for outcome in outcomes]

    def _vote(self, outcome: Outcome) -> Vote:
        if isinstance(outcome, Failure):
            return Vote(self.name, "unscored", outcome.detail)
        said = " ".join(outcome.text.split())[:200]
        tokens = outcome.prompt_tokens + outcome.completion_tokens
        if outcome.finish_reason == "declined":
            return Vote(self.name, "unscored", f"declined: {said}", tokens)
        # A cut may have fallen before a second thought; a letter is asked for alone and can't be cut.
        if outcome.finish_reason == "length" and self._settings.form == "verdict":
            return Vote(self.name, "unscored", f"cut off: {said}", tokens)
        return Vote(self.name, parse_vote(outcome.text, self._settings.form), said, tokens)


@contextmanager
def _as_moderation() -> Iterator[None]:
    """Errors of the parts as the moderator's, so that it is plain which of a run's models they concern."""
    try:
        yield
    except ModerationError:
        raise
    except OverbenchError as error:
        raise ModerationError(f"Moderation can't be done. {error}") from error
