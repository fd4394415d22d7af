"""A text-classification model from the hub, or a folder, as a judge of whether prompts are harmless."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from generators.settings import SettingsSection
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.classifier import Classifier, ClassifierSettings
from overbench_tasks.text import encodable, number_of

VoteWord = Literal["benign", "harmful", "contested", "unscored"]

_HARMFUL_NAME = re.compile(
    r"toxi|hate|harm|unsafe|offens|inappropriate|abus|violat|injur|jailbreak|danger", re.I
)
_NEGATED_NAME = re.compile(
    r"^(?:non?|not|without)(?![a-z])|^(?:non|un)(?=tox|harm|offens|hate)|less$|^neutral", re.I
)
_BENIGN_NAME = re.compile(r"^(?:safe|benign|ok|okay|neutral|normal|harmless|appropriate|allowed)$", re.I)


@dataclass(frozen=True, slots=True)
class Vote:
    """One judge on one prompt.

    Attributes:
        by: ``judge:`` or ``classifier:`` and the model's name.
        said: the judge's answer (its first 200 characters), the classifier's probability, or why there is no
            vote.
        tokens: of request and answer together, as far as the endpoint counted them.
    """

    by: str
    verdict: VoteWord
    said: str
    tokens: int = 0


class ClassifierModel(SettingsSection):
    """A text-classification model that votes."""

    model: str = Field(min_length=1, description="hub id or folder")
    revision: str | None = Field(None, description="of the model on the hub; pin it to compare results")
    harmful_label: str | int | None = Field(
        None, description="name or number of the label that means harmful; null: found by the labels' names"
    )
    benign_label: str | int | None = Field(
        None, description="instead, the label that means harmless, where several labels mean harm"
    )
    threshold: float = Field(0.5, gt=0, lt=1, description="harmful from this probability of harm on")
    batch_size: int = Field(32, ge=1, description="prompts in one pass")
    max_length: int | None = Field(
        None, ge=1, description="tokens read of a prompt; null: all the model takes"
    )
    device: str | None = Field(None, description="null: the first there is of CUDA, MPS, CPU")

    @model_validator(mode="after")
    def _one_label(self) -> ClassifierModel:
        if self.harmful_label is not None and self.benign_label is not None:
            raise ValueError("set harmful_label or benign_label, not both")
        return self


class ModerationClassifier:
    """A classifier of prompts, loaded and batched like the classifier of replies, with labels of harm."""

    def __init__(self, settings: ClassifierModel) -> None:
        self._settings = settings
        self._ready: tuple[Classifier, bool] | None = None
        self.version = f"classifier:{self._reader(0).short_name()}"
        if settings.revision:
            self.version += f"@{settings.revision}"

    def check(self) -> None:
        """Check the model's config; loads no weights.

        Raises:
            OverbenchError: it can't be read, or its labels don't tell which means harmful.
        """
        self._loaded()

    def votes(self, prompts: Sequence[str]) -> list[Vote]:
        """One vote per prompt, in order.

        Raises:
            OverbenchError: as :meth:`check`; the model can't be loaded, or fails, as where memory runs out.
        """
        model, inverted = self._loaded()
        try:
            probabilities = model.probabilities([(encodable(prompt),) for prompt in prompts])
        except (RuntimeError, IndexError) as error:
            raise OverbenchError(
                f"The moderation model {self._settings.model} failed on "
                f"{number_of(len(prompts), 'prompt')}: {error} If memory ran out, set a smaller "
                "batch_size or device: cpu."
            ) from error
        return [self._vote(1 - p if inverted else p) for p in probabilities]

    def close(self) -> None:
        """Free the model and its memory; the next vote loads it again."""
        if self._ready is not None:
            self._ready[0].close()

    def _vote(self, harm: float) -> Vote:
        verdict: VoteWord = "harmful" if harm >= self._settings.threshold else "benign"
        return Vote(self.version, verdict, f"p(harmful) = {harm:.4f}")

    def _loaded(self) -> tuple[Classifier, bool]:
        """The model, which loads its weights at the first vote, and whether its label means harmless."""
        if self._ready is None:
            config = self._reader(0).read_config()
            label, inverted = harm_label(config, self._settings.harmful_label, self._settings.benign_label)
            self._ready = Classifier(self._reader(label)), inverted
        return self._ready

    def _reader(self, label: int) -> ClassifierSettings:
        same = self._settings.model_dump(include={"model", "revision", "batch_size", "max_length", "device"})
        return ClassifierSettings(**same, refusal_label=label, input="reply")


def harm_label(
    config: Any, harmful_label: str | int | None = None, benign_label: str | int | None = None
) -> tuple[int, bool]:
    """Which output of a classifier to read, and whether it means harmless: then harm is 1 less its
    probability.

    Args:
        config: its ``id2label`` maps outputs to names.
        harmful_label: the setting, a name in any case or a number; likewise ``benign_label``. Where both are
            None: the only name that means harm (toxic, unsafe, hate, ...), or else the only name that means
            harmless (safe, ok, ...).

    Raises:
        OverbenchError: there is no such label, or the names leave it open; lists them.
    """
    names = {int(index): str(name) for index, name in config.id2label.items()}
    listed = ", ".join(f"{index}: {name!r}" for index, name in sorted(names.items()))
    wanted = harmful_label if harmful_label is not None else benign_label
    if wanted is not None:
        for index, name in names.items():
            if str(wanted).casefold() in (name.casefold(), str(index)):
                return index, harmful_label is None
        raise OverbenchError(f"The moderation model has no label {wanted!r}. It has {listed}.")
    harmful = [
        i for i, name in names.items() if _HARMFUL_NAME.search(name) and not _NEGATED_NAME.search(name)
    ]
    if len(harmful) == 1:
        return harmful[0], False
    exclusive = len(names) > 1 and config.problem_type != "multi_label_classification"
    harmless = [i for i, name in names.items() if _BENIGN_NAME.search(name) or _NEGATED_NAME.search(name)]
    if exclusive and len(harmless) == 1:
        return harmless[0], True
    raise OverbenchError(
        f"Cannot tell which of the moderation model's labels means harmful: {listed}. "
        "Set harmful_label to it, or benign_label to the label that means harmless: a name or a number."
    )
