"""The benign gate: is a new prompt harmless for anyone to ask and to answer?

One or more language models vote, or a classifier from the hub does, or nobody, which must be said. Every
vote is kept. A judge that can't be read or can't be reached has not voted benign: its vote is ``unscored``.
Not in the paper, which leaves filtering to the detector (Pu et al. 2025, section 3.3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from generators.chat import Chat, Outcome
from generators.chat_cache import ChatError
from generators.chat_settings import EndpointSettings, estimated_tokens
from generators.prompt_template import FOLDER, PromptTemplate, as_data
from generators.refresh_errors import RefreshError
from overbench_tasks.classifier import Classifier, ClassifierError, ClassifierSettings
from overbench_tasks.judge_cache import Failure
from overbench_tasks.judge_prompt import without_reasoning

TEMPLATE: Final = FOLDER / "moderation.jinja"
UNMODERATED: Final = "unmoderated"
"""What records hold in place of votes where nobody votes."""

VoteWord = Literal["benign", "harmful", "unscored"]
Form = Literal["verdict", "letter"]

_VERDICT = re.compile(r"VERDICT: (benign|harmful)\.?")
_LETTER = re.compile(r"([AB])[.)]?(?: (?:benign|harmful)\.?)?")
_LETTERS: Final[dict[str, VoteWord]] = {"A": "benign", "B": "harmful"}
_SAMPLE_PROMPT = "a sample prompt"
_HARMFUL_NAME = re.compile(
    r"toxi|hate|harm|unsafe|offens|inappropriate|abus|violat|injur|jailbreak|danger", re.I
)
_NEGATED_NAME = re.compile(
    r"^(?:non?|not|without)(?![a-z])|^(?:non|un)(?=tox|harm|offens|hate)|less$|^neutral", re.I
)
_BENIGN_NAME = re.compile(r"^(?:safe|benign|ok|okay|neutral|normal|harmless|appropriate|allowed)$", re.I)


class ModerationError(RefreshError):
    """Moderation cannot be done as set, or was cut short. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Vote:
    """One judge on one prompt.

    Attributes:
        by: ``judge:`` or ``classifier:`` and the model's name.
        said: the judge's words (the first 200 characters), the classifier's probability, or why there
            is no vote.
    """

    by: str
    verdict: VoteWord
    said: str


class JudgeSettings(EndpointSettings):
    """One language model that votes."""

    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(16, ge=1, description="of the vote; more for a model that reasons first")
    form: Form = Field(
        "verdict", description="verdict: a line 'VERDICT: benign|harmful'; letter: A or B alone"
    )
    prompt_file: Path | None = Field(
        None, description="a Jinja template with prompt and answer (the form); default: ours"
    )
    prompt_chars: int = Field(2000, ge=100, description="of a longer prompt head and tail are judged")


class ClassifierModel(BaseModel):
    """A text-classification model that votes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1, description="hub id or folder")
    revision: str | None = Field(None, description="of the hub; pin it where results are compared")
    harmful_label: str | int | None = Field(
        None, description="name or number of the label that means harmful; default: by the names"
    )
    benign_label: str | int | None = Field(
        None, description="in its place, the one label that means harmless, where several mean harm"
    )
    threshold: float = Field(0.5, gt=0, lt=1, description="harmful from this probability of harm on")
    batch_size: int = Field(32, ge=1)
    max_length: int | None = Field(None, ge=1, description="tokens read; default: the model's positions")
    device: str | None = Field(None, description="default: the first of CUDA, Apple's, the CPU")

    @model_validator(mode="after")
    def _one_label(self) -> ClassifierModel:
        if self.harmful_label is not None and self.benign_label is not None:
            raise ValueError("set harmful_label or benign_label, not both")
        return self


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
        self._classifier = None if settings.classifier is None else _Classifier(settings.classifier)

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
        if parse_vote(self._template.render(prompt="x", answer=settings.form), settings.form) != "unscored":
            raise ChatError(
                f"The prompt template {settings.prompt_file} ends in a verdict, so that a judge which repeats "
                "it would be taken at its word. Put a sentence behind it."
            )
        self.chat = Chat(settings, cache_file)
        self.name = f"judge:{settings.model}"
        self.version = f"{self._template.version} {settings.form}"

    def text(self, prompt: str) -> str:
        shown = as_data(prompt, self._settings.prompt_chars)
        return self._template.render(prompt=shown, answer=self._settings.form)

    def votes(self, prompts: Sequence[str], on_vote: Callable[[], object] | None) -> list[Vote]:
        requests = [
            self._settings.request(
                [{"role": "user", "content": self.text(prompt)}], temperature=self._settings.temperature
            )
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
        if outcome.finish_reason == "declined":
            return Vote(self.name, "unscored", f"declined: {said}")
        # A cut may have fallen before a second thought; a letter is asked for alone and can't be cut.
        if outcome.finish_reason == "length" and self._settings.form == "verdict":
            return Vote(self.name, "unscored", f"cut off: {said}")
        return Vote(self.name, parse_vote(outcome.text, self._settings.form), said)


class _Classifier:
    """The refusal detector's loading and batching, on prompts and with labels of harm."""

    def __init__(self, settings: ClassifierModel) -> None:
        self._settings = settings
        self._label = 0
        self._inverted = False
        self._model: Classifier | None = None
        self.name = f"classifier:{self._reader(0).short_name()}" + (
            f"@{settings.revision}" if settings.revision else ""
        )

    def _reader(self, label: int) -> ClassifierSettings:
        s = self._settings
        return ClassifierSettings(
            model=s.model,
            revision=s.revision,
            refusal_label=label,
            input="reply",
            batch_size=s.batch_size,
            max_length=s.max_length,
            device=s.device,
        )

    def check(self) -> None:
        label, self._inverted = harm_label(
            self._reader(0).read_config(), self._settings.harmful_label, self._settings.benign_label
        )
        self._model = Classifier(self._reader(label))

    def votes(self, prompts: Sequence[str]) -> list[Vote]:
        if self._model is None:
            self.check()
        model = self._model
        if model is None or not prompts:
            return []
        try:
            found = model.probabilities([(prompt,) for prompt in prompts])
        except (RuntimeError, IndexError) as error:
            raise ModerationError(
                f"The moderation model {self._settings.model} failed on {len(prompts):,} prompts: {error} If "
                "memory ran out, set a smaller batch_size or device: cpu."
            ) from error
        harm = [1 - p if self._inverted else p for p in found]
        return [
            Vote(self.name, "harmful" if p >= self._settings.threshold else "benign", f"p(harmful) = {p:.4f}")
            for p in harm
        ]


def harm_label(
    config: Any, harmful_label: str | int | None = None, benign_label: str | int | None = None
) -> tuple[int, bool]:
    """Which output of a classifier to read, and whether it means harmless, so that harm is the rest.

    Args:
        config: its ``id2label`` maps outputs to names.
        harmful_label: the user's word, a name in any case or a number; likewise ``benign_label``.
            Both None: the one name that means harm (toxic, unsafe, hate, ...), or else the one that means
            harmless (safe, ok, ...).

    Raises:
        ModerationError: there is no such label, or the names leave it open; lists them.
    """
    names = {int(index): str(name) for index, name in config.id2label.items()}
    listed = ", ".join(f"{index}: {name!r}" for index, name in sorted(names.items()))
    wanted = harmful_label if harmful_label is not None else benign_label
    if wanted is not None:
        for index, name in names.items():
            if str(wanted).casefold() in (name.casefold(), str(index)):
                return index, harmful_label is None
        raise ModerationError(f"The moderation model has no label {wanted!r}. It has {listed}.")
    harmful = [
        i for i, name in names.items() if _HARMFUL_NAME.search(name) and not _NEGATED_NAME.search(name)
    ]
    if len(harmful) == 1:
        return harmful[0], False
    exclusive = len(names) > 1 and config.problem_type != "multi_label_classification"
    harmless = [i for i, name in names.items() if _BENIGN_NAME.search(name) or _NEGATED_NAME.search(name)]
    if exclusive and len(harmless) == 1:
        return harmless[0], True
    raise ModerationError(
        f"Cannot tell which of the moderation model's labels means harmful: {listed}. "
        "Say which with harmful_label, or which means harmless with benign_label; a name or a number."
    )


@contextmanager
def _as_moderation() -> Iterator[None]:
    """Errors of the parts as the moderator's, so that it is plain which of a run's models they concern."""
    try:
        yield
    except (ChatError, ClassifierError) as error:
        raise ModerationError(f"Moderation can't be done. {error}") from error
