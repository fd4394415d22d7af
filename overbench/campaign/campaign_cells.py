"""The cells of a campaign: target by system prompt by decoding by repeat by set, each with its own folder.

A cell's key is a hash of all that decides its result. So a cell is done for good; what is added to a file
makes new cells, and what is changed makes others in place of the old, whose results stay where they are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from overbench.campaign.campaign_settings import CampaignSettings
from overbench.campaign.target_settings import CampaignTarget, DecodingSettings
from overbench.campaign.task_specs import TaskSpec, labelled_by
from overbench_tasks.outcomes.target_record import shaping_arguments
from overbench_tasks.providers.model_types import API_TYPES, UNSEEDED_API_TYPES

CELLS, FACTS = "cells", "cell.json"
SEED_ARGUMENTS: Final = {
    **dict.fromkeys(set(API_TYPES).difference(UNSEEDED_API_TYPES), "seed"),
    **{"vllm": "seed", "vllm-vlm": "seed", "sglang": "random_seed"},
}
"""Model type -> its argument that is a seed, of those that have one."""
SEED: Final = 1234
"""lm-eval's own."""


@dataclass(frozen=True)
class Configuration:
    """A target as it is asked once.

    Attributes:
        system, decoding: their names in the campaign.
        system_text: "" for none.
        repeat: from 1.
    """

    target: CampaignTarget
    system: str
    system_text: str
    decoding: str
    drawn: DecodingSettings
    repeat: int

    @property
    def name(self) -> str:
        return f"{self.way}/{self.drawn.names(self.decoding)[self.repeat - 1]}"

    @property
    def former_names(self) -> list[str]:
        """Those it has with another number of repeats."""
        return [f"{self.way}/{self.decoding}{again}" for again in ("", "-1")] if self.repeat == 1 else []

    @property
    def way(self) -> str:
        """Its target and system prompt."""
        return f"{self.target.name}/{self.system}"

    @property
    def by_api(self) -> bool:
        """Whether a server is asked."""
        return self.target.model in API_TYPES

    @property
    def gen_kwargs(self) -> dict[str, Any]:
        """lm-eval's. Backends that load a model sample only where ``do_sample`` says so. The others don't
        read it; without it lm-eval's cache holds sampled replies, too, so that none is paid for twice."""
        found = dict(self.drawn.gen_kwargs)
        if self.drawn.sampled:
            found["do_sample"] = not self.by_api
        return found

    @property
    def seed(self) -> int:
        """Of its own for each repeat."""
        argument = SEED_ARGUMENTS.get(self.target.model, "seed")
        given = re.search(rf"(?:^|,) *{argument}=(\d+)", self.target.model_args)
        return (int(given[1]) if given else SEED) + self.repeat - 1

    @cached_property
    def asked(self) -> dict[str, Any]:
        """All that decides a reply beside the prompt, as JSON holds it. Where and how fast a model runs is no
        part of it; of a server all of its command is, by a hash, for that may name the checkpoint."""
        return {
            **server_of(self.target),
            "model": self.target.model,
            "model_args": shaping_arguments(self.target.model_args),
            "apply_chat_template": self.target.apply_chat_template,
            "system_instruction": self.system_text,
            "gen_kwargs": self.gen_kwargs,
            "seed": self.seed,
        }

    @cached_property
    def key(self) -> str:
        """12 hex digits of :attr:`asked`."""
        return hashed(self.asked)


def server_of(target: CampaignTarget) -> dict[str, str]:
    """What tells a target's server from another; of none, nothing."""
    return {"server": hashed({"command": target.server.command})} if target.server else {}


def hashed(value: Mapping[str, Any]) -> str:
    """12 hex digits over anything that JSON holds."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class CampaignCell:
    """One configuration on one set.

    Attributes:
        labelled: the labeller and its settings.
        of_refreshed: the target for which the prompts were refreshed; "" for other sets.
    """

    configuration: Configuration
    task_spec: TaskSpec
    labelled: str
    of_refreshed: str = ""

    @property
    def name(self) -> str:
        return f"{self.configuration.name}/{self.task_spec.name}"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What decides the result."""
        one = self.task_spec
        return {
            **self.configuration.asked,
            "task": one.base,
            "prompts": one.prompts_hash,
            "labeller": self.labelled,
            **one.part,
        }

    @cached_property
    def key(self) -> str:
        return hashed(self.facts)

    @property
    def place(self) -> str:
        """Which cell it is, as a path: what decides the result, and whose it is. Targets at two addresses may
        have the same key."""
        return f"{self.name}/{self.key}"

    def folder(self, out: Path) -> Path:
        """Where its results lie once it is done: lm-eval's output, and beside it :data:`FACTS`."""
        return out / CELLS / self.place

    def is_done(self, out: Path) -> bool:
        """Folders take their place whole, with this file in them."""
        return (self.folder(out) / FACTS).is_file()


def configurations(settings: CampaignSettings) -> list[Configuration]:
    """All of them, target by target."""
    return [
        Configuration(target, system, settings.system_text(system), decoding, drawn, repeat)
        for target in settings.targets
        for system in settings.system_prompts
        for decoding, drawn in settings.decodings.items()
        for repeat in range(1, drawn.repeats + 1)
    ]


def cells_of(
    settings: CampaignSettings, name: str, asked: Sequence[TaskSpec], of_refreshed: Sequence[str] = ()
) -> list[CampaignCell]:
    """The cells of the set ``name``, which is several where it was refreshed for several targets."""
    chosen, labelled = settings.sets[name], labelled_by(settings.labeller)
    whose = of_refreshed or ("",) * len(asked)
    return [
        CampaignCell(one, this, labelled, target)
        for one in configurations(settings)
        if (chosen.targets is None or one.target.name in chosen.targets)
        and (chosen.system_prompts is None or one.system in chosen.system_prompts)
        and (chosen.decodings is None or one.decoding in chosen.decodings)
        for this, target in zip(asked, whose, strict=True)
    ]
