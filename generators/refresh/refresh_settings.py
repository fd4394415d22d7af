"""All settings of a refresh: one section per stage, each default written once, where it is used.

A settings file is YAML with the sections as keys; flags and ``--set section.name=value`` come on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from generators.adversary.adversary import FORM_OF_0_1, AdversarySettings
from generators.attribution.attribution_settings import AttributionSettings
from generators.detector.detector_settings import DetectorSettings
from generators.prompt_filters.form import FormSettings
from generators.prompt_filters.moderation import ModerationSettings
from generators.prompt_filters.novelty import NoveltySettings
from generators.prompt_filters.presence import PresenceSettings
from generators.refresh.presets import PRESETS
from generators.seeds.seeds import SeedSettings
from generators.settings import SettingsSection, assigned, checked, merge, read_settings, with_filters
from generators.targets.labeller_settings import LabellerSettings
from generators.targets.target import TargetSettings
from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.target_record import shaping_arguments


class PromptFilterSettings(SettingsSection):
    """The filters that need no model."""

    form: FormSettings = FormSettings()
    novelty: NoveltySettings = NoveltySettings()
    presence: PresenceSettings = PresenceSettings()


class RoundSettings(SettingsSection):
    """How the feedback rounds go (Pu et al. 2025, section 3.3 and Algorithm 1)."""

    rounds: int = Field(3, ge=1, description="Feedback rounds.")
    jobs: int | None = Field(
        400, ge=1, description="Requests to the adversary per round, at most; null: until nothing is left."
    )
    batch: int = Field(32, ge=1, description="Requests in flight before the next ones are drawn.")
    feature_cap: int = Field(
        50, ge=1, description="Times a feature is used over the whole run before it is out (the paper's T)."
    )
    keep: int = Field(
        2, ge=1, description="Candidates of one request that go on, the likeliest refusals first."
    )
    grow: bool = Field(
        True, description="Accepted prompts become seeds of the same round: the growing S of Algorithm 1."
    )
    seeds_by: Literal["target", "detector"] = Field(
        "target",
        description="Which generation seeds start the loop: those the target refuses, asked first; "
        "or, as in the paper, those the detector calls refused.",
    )
    weak_detector: Literal["rank", "gate"] = Field(
        "rank",
        description="Used where validation had too few prompts to choose a threshold on, or where the "
        "threshold does not hold on the test split. rank: the detector's scores only choose the likeliest "
        "candidates of each request (`keep`), and the target decides. gate: the detector turns away what it "
        "calls accepted, as others do.",
    )
    words: Literal["attributed", "random"] = Field(
        "attributed",
        description="Features by attribution; 'random' draws words of the same prompts, to compare.",
    )
    explore: float = Field(
        0.2,
        ge=0,
        le=1,
        description="The share of candidates turned away by the detector alone that the target is asked "
        "all the same, so that the next detector learns from its misses. Never part of the data.",
    )
    carry_over: bool = Field(
        True, description="Later rounds start from the verified prompts of earlier ones, too."
    )
    examples: int = Field(
        3, ge=0, description="Verified prompts of earlier rounds shown to the adversary in each request."
    )
    chunk_size: int = Field(256, ge=1, description="Prompts per call of the target's backend.")


class PriceSettings(SettingsSection):
    """For the estimate of ``--dry_run``: US dollars per million tokens. Default: gpt-4o-mini, July 2024."""

    prompt: float = Field(0.15, ge=0)
    completion: float = Field(0.60, ge=0)


class BudgetSettings(SettingsSection):
    """Where to stop a run; None is no limit. What was made until then stays usable, and the run goes on once
    the budget is raised. Every paid call counts: see :mod:`generators.refresh.paid_calls`."""

    calls: int | None = Field(
        None,
        ge=1,
        description="Paid calls, together: of the writer, of judges that vote or label, of a target behind "
        "an API that is not on this machine or its private network.",
    )
    tokens: int | None = Field(None, ge=1, description="Their prompt and completion tokens, together.")


class RefreshSettings(SettingsSection):
    """Everything that shapes a run."""

    target: TargetSettings
    seeds: SeedSettings = SeedSettings()
    labeller: LabellerSettings = LabellerSettings()
    detector: DetectorSettings = DetectorSettings()
    attribution: AttributionSettings = AttributionSettings()
    adversary: AdversarySettings = AdversarySettings()
    filters: PromptFilterSettings = PromptFilterSettings()
    moderation: ModerationSettings
    rounds: RoundSettings = RoundSettings()
    prices: PriceSettings = PriceSettings()
    budget: BudgetSettings = BudgetSettings()
    seed: int = Field(0, ge=0, description="Of every draw.")

    def shaping(self) -> dict[str, Any]:
        """What decides what comes out, as JSON holds it. The rest says how to work: it may change between two
        calls."""
        how_to_work: Any = {"budget": True, "prices": True, "target": {"batch_size", "device", "model_args"}}
        told = self.model_dump(mode="json", exclude=how_to_work)
        told["target"]["model_args"] = shaping_arguments(self.target.model_args)
        return told

    def identity(self) -> dict[str, Any]:
        """:meth:`shaping` as campaigns name a run's folder by: the filters under their earlier name, so that
        runs begun before they had today's are found again."""
        shaping = self.shaping()
        shaping["gates"] = shaping.pop("filters")
        return shaping


_EARLIER_NAMES: Final = {("rounds", "wave"): ("rounds", "batch"), ("pool", "cap"): ("rounds", "feature_cap")}
"""Settings of earlier versions, in their files and runs, and what they are called now."""


def load(
    file: Path | None, overrides: Mapping[str, Any], assignments: Sequence[str] = (), preset: str = "default"
) -> RefreshSettings:
    """The settings from a preset, a YAML file, flags and ``section.name=value`` words, the last first.

    In a file, null is a value like any other.

    Raises:
        OverbenchError: names the setting, what was expected and what came.
    """
    if preset not in PRESETS:
        raise OverbenchError(f"No preset is called {preset!r}. Expected one of {', '.join(PRESETS)}.")
    merged = merge(
        {"target": {}, **PRESETS[preset]}, {} if file is None else _renamed(with_filters(read_settings(file)))
    )
    return checked(
        RefreshSettings, merge(merge(merged, overrides), _renamed(with_filters(assigned(assignments))))
    )


def changed(
    settings: RefreshSettings, overrides: Mapping[str, Any], assignments: Sequence[str] = ()
) -> RefreshSettings:
    """The settings of a run with flags and ``section.name=value`` words on top.

    Raises:
        OverbenchError: names the setting, what was expected and what came.
    """
    merged = merge(settings.model_dump(mode="json"), overrides)
    return checked(RefreshSettings, merge(merged, _renamed(with_filters(assigned(assignments)))))


def from_stored(used: Mapping[str, Any], folder: Path) -> RefreshSettings:
    """The settings that the run in ``folder`` was begun with, by this version or an earlier one.

    Raises:
        OverbenchError: they are those of a version that this one does not know.
    """
    whose = f"The run in {folder} was begun by a version with other settings. "
    then = {"adversary": {"form": FORM_OF_0_1}, "rounds": {"weak_detector": "gate"}}
    return checked(RefreshSettings, merge(then, _renamed(with_filters(used, warn=False))), whose)


def _renamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under the names of today; a section that this empties is gone."""
    found = {name: dict(part) if isinstance(part, Mapping) else part for name, part in settings.items()}
    for (section, name), (new_section, new_name) in _EARLIER_NAMES.items():
        before = found.get(section)
        if isinstance(before, dict) and name in before:
            found.setdefault(new_section, {})[new_name] = before.pop(name)
            if not before:
                del found[section]
    return found
