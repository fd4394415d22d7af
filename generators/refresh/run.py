"""One refresh at work: its settings, its run directory, and the parts that cost time to make."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from generators.refresh.labeling import Labelled, labelled
from generators.refresh.refresh_settings import RefreshSettings
from generators.refresh.store import Store
from generators.targets.target import Asked, Target
from overbench_tasks import __version__
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers import Labeller, by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generators.adversary.adversary import Adversary
    from generators.attribution.attribution import Attribution
    from generators.attribution.feature_pool import FeaturePool
    from generators.detector.detector_model import Detector
    from generators.detector.detector_report import DetectorReport
    from generators.detector.detector_settings import Example
    from generators.gates.moderation import Moderator

SETTINGS_FILE = "settings.yaml"


class RunError(OverbenchError):
    """A run directory and what is asked of it do not fit."""


class Reporter(Protocol):
    """Where progress goes: bars in a terminal, nothing in a test."""

    def bar(self, name: str, total: int) -> Callable[[int], None]:
        """A bar of ``total`` units; the function advances it."""

    def say(self, line: str) -> None:
        """One line for the user."""


class Silent:
    """A :class:`Reporter` that reports nothing."""

    def bar(self, name: str, total: int) -> Callable[[int], None]:
        return lambda done: None

    def say(self, line: str) -> None:
        pass


@dataclass(frozen=True)
class Parts:
    """What a run works with; None is what the settings name. Tests put scripted ones here.

    Attributes:
        train: (examples, folder, settings) -> report, as :func:`generators.detector.detector.train`.
        load: (folder) -> detector, as :meth:`generators.detector.detector.Detector.load`.
        attribute: (detector, prompts, settings) -> attributions, in order.
    """

    target: Asked | None = None
    labeller: Labeller | None = None
    adversary: Adversary | None = None
    moderator: Moderator | None = None
    train: Callable[..., DetectorReport] | None = None
    load: Callable[[Path], Detector] | None = None
    attribute: Callable[..., list[Attribution]] | None = None


class Run:
    """A refresh in progress.

    Args:
        settings: as the user gave them; they must equal those that the folder was begun with.
        store: the open run directory.

    Raises:
        RunError: the folder holds a run with other settings.
    """

    def __init__(
        self,
        settings: RefreshSettings,
        store: Store,
        *,
        reporter: Reporter | None = None,
        parts: Parts | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.reporter: Reporter = reporter or Silent()
        self._parts = parts or Parts()
        self.target: Asked = self._parts.target or Target(settings.target)
        self._detector: tuple[int, Detector] | None = None
        _begin(settings, store)

    @cached_property
    def labeller(self) -> Labeller:
        chosen = self.settings.labeller
        return self._parts.labeller or by_name(chosen.by, chosen.by_args)

    @cached_property
    def adversary(self) -> Adversary:
        from generators.adversary.adversary import Adversary

        return self._parts.adversary or Adversary(self.settings.adversary, self._answers_file)

    @cached_property
    def moderator(self) -> Moderator:
        from generators.gates.moderation import Moderator

        return self._parts.moderator or Moderator(self.settings.moderation, self._answers_file)

    def check(self, until: str | None = None) -> None:
        """Find out what is wrong with the settings before time or money is spent on them.

        Checks the labeller, the encoder, and, if the adversary's stage is to be reached, that
        adversary and judges answer.
        """
        from generators.detector.detector import check_encoder
        from generators.models.models import encoder_place

        _ = self.labeller
        if until not in ("seeds", "label") and self._parts.train is None:
            check_encoder(self.settings.detector, encoder_place(self.settings.detector.model))
        if until not in ("seeds", "label", "train", "attribute"):
            self.adversary.check()
            self.moderator.check()

    def train(self, examples: Sequence[Example], round_number: int) -> DetectorReport:
        """Train the detector of a round."""
        from generators.detector.detector import train
        from generators.models.models import encoder_place

        folder, settings = self.detector_folder(round_number), self.settings.detector
        if self._parts.train is not None:
            return self._parts.train(examples, folder, settings)
        return train(examples, folder, settings, encoder=encoder_place(settings.model))

    def attribute(self, round_number: int, prompts: Sequence[tuple[str, str]]) -> list[Attribution]:
        """Attribute (id, prompt) pairs with the detector of a round."""
        detector = self.detector(round_number)
        if self._parts.attribute is not None:
            return self._parts.attribute(detector, prompts, self.settings.attribution)
        from generators.attribution.attribution import attribute

        return attribute(detector.model, detector.tokenizer, prompts, self.settings.attribution)

    @property
    def _answers_file(self) -> Path:
        return self.store.folder / "adversary.sqlite"

    def detector_folder(self, round_number: int) -> Path:
        """The folder of the detector that gates a round; one more than the last is what that round taught."""
        return self.store.folder / "detector" / f"round-{round_number}"

    def detector(self, round_number: int) -> Detector:
        """The trained detector of a round; one is in memory at a time."""
        if self._detector is None or self._detector[0] != round_number:
            self._detector = (round_number, self._load(self.detector_folder(round_number)))
        return self._detector[1]

    def _load(self, folder: Path) -> Detector:
        if self._parts.load is not None:
            return self._parts.load(folder)
        from generators.detector.detector_model import Detector

        return Detector.load(folder, device=self.settings.detector.device)

    def labels(self) -> dict[str, Labelled]:
        """What the target did with every prompt it was asked, by prompt id."""
        return labelled(self.store, self.target, self.labeller)

    def draw(self, *key: object) -> random.Random:
        """A generator of its own for every purpose, so that a resumed run draws the same."""
        return random.Random(json.dumps([self.settings.seed, *map(str, key)]))  # noqa: S311

    def verified(self, *, before: int) -> list[tuple[str, str]]:
        """(id, prompt) of accepted prompts that the target refused in earlier rounds, the latest first."""
        labels = self.labels()
        query = """
            SELECT id, prompt FROM prompts WHERE part = 'accepted' AND round < ?
            ORDER BY round DESC, position"""
        rows = self.store.rows(query, [before])
        return [
            (row["id"], row["prompt"]) for row in rows if row["id"] in labels and labels[row["id"]].refused
        ]

    def pool(self) -> FeaturePool:
        """The uses of every feature: accepted prompts, and requests whose answers are still to be judged."""
        from generators.attribution.feature_pool import FeaturePool

        query = """
            SELECT feature FROM prompts WHERE part = 'accepted' UNION ALL
            SELECT feature FROM jobs WHERE id NOT IN (SELECT job_id FROM written)"""
        pool = FeaturePool(self.settings.pool)
        for row in self.store.rows(query):
            pool.add(row["feature"])
        return pool

    def spent(self) -> dict[str, int]:
        """Calls of adversary and judges so far, and their tokens as far as the endpoints counted them."""
        judges = len(self.settings.moderation.judges)
        written = "SELECT COALESCE(SUM(prompt_tokens + completion_tokens), 0) FROM written"
        voted = "SELECT COALESCE(SUM(json_extract(value, '$.tokens')), 0) FROM votes, json_each(votes.votes)"
        return {
            "calls": self.store.value("SELECT COUNT(*) FROM jobs")
            + judges * self.store.value("SELECT COUNT(*) FROM votes"),
            "tokens": self.store.value(written) + self.store.value(voted),
        }

    def over_budget(self) -> bool:
        """Whether the next wave could go beyond the budget's calls, or begins with its tokens spent."""
        budget, spent, rounds = self.settings.budget, self.spent(), self.settings.rounds
        votes_per_job = rounds.keep * len(self.settings.moderation.judges)
        unjudged = self.store.value("SELECT COUNT(*) FROM jobs WHERE id NOT IN (SELECT job_id FROM written)")
        calls = spent["calls"] + unjudged * votes_per_job + rounds.wave * (1 + votes_per_job)
        return (budget.calls is not None and calls > budget.calls) or (
            budget.tokens is not None and spent["tokens"] >= budget.tokens
        )

    def prompts(self, parts: Sequence[str]) -> list[tuple[str, str]]:
        """(id, prompt) of all prompts of these parts, in order."""
        marks = ", ".join("?" * len(parts))
        query = f"SELECT id, prompt FROM prompts WHERE part IN ({marks}) ORDER BY position, id"  # noqa: S608
        return [(row["id"], row["prompt"]) for row in self.store.rows(query, list(parts))]


#: Settings that say how to work, not what comes out: they may change between two calls.
_FREE = {"budget": None, "prices": None}
_FREE_IN_TARGET = ("batch_size", "device")


def _begin(settings: RefreshSettings, store: Store) -> None:
    """Write the settings into a new run directory, or check that an old one was begun with the same."""
    used = settings.model_dump(mode="json")
    before = store.fact("settings")
    if before is None:
        store.set_fact("settings", used)
        store.set_fact("versions", _versions())
        text = yaml.safe_dump(used, sort_keys=False, allow_unicode=True)
        (store.folder / SETTINGS_FILE).write_text(text, encoding="utf-8")
        return
    known = _validated(before, store.folder).model_dump(mode="json")  # what came later has its default
    changed = sorted(_differences(_fixed(known), _fixed(used)))
    if changed:
        raise RunError(
            f"{store.folder} was begun with other settings: {', '.join(changed)} changed. "
            "Name a new run directory, or leave these as they were."
        )


def _fixed(settings: dict[str, Any]) -> dict[str, Any]:
    target = {name: value for name, value in settings["target"].items() if name not in _FREE_IN_TARGET}
    return {name: value for name, value in settings.items() if name not in _FREE} | {"target": target}


def _differences(before: Any, now: Any, name: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        found = []
        for key in before.keys() | now.keys():
            found += _differences(before.get(key), now.get(key), f"{name}.{key}" if name else key)
        return found
    return [] if before == now else [name]


def settings_of(folder: Path) -> RefreshSettings:
    """The settings that a run directory was begun with.

    Raises:
        StoreError: there is no run.
        RunError: the run was begun by a version with other settings.
    """
    with Store(folder, read_only=True) as store:
        return _validated(store.fact("settings"), folder)


def _validated(used: Any, folder: Path) -> RefreshSettings:
    try:
        return RefreshSettings.model_validate(used)
    except ValueError as error:
        raise RunError(
            f"The settings in {folder} are not those of this version, overbench {__version__}: {error}"
        ) from error


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"overbench": __version__}
    for package in ("lm_eval", "torch", "transformers", "captum", "openai", "wordfreq"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
