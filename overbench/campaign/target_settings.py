"""The settings of a campaign's targets, and of how replies are drawn of them."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from generators.refresh.refresh_settings import PriceSettings
from overbench_tasks.outcomes.target_names import name_target
from overbench_tasks.outcomes.target_record import how_asked

PORT: Final = "{port}"
"""In model arguments and commands, where the port of a target's server comes."""


_GEN_KWARGS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "do_sample",
    "num_beams",
    "until",
    "max_gen_toks",
    "max_tokens",
    "max_new_tokens",
    "max_length",
    "min_tokens",
    "min_new_tokens",
    "min_length",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
)
"""Names that one nearly like them is a slip of; backends and servers take others, too."""


class SettingsPart(BaseModel):
    """Of the settings of a campaign: unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(SettingsPart):
    """A server that answers for one target: started before it is asked, waited for, and stopped."""

    command: str = Field(
        description="Template of the command line, without a shell: {port} and {model} are filled in."
    )

    @field_validator("command")
    @classmethod
    def _words(cls, command: str) -> str:
        if not shlex.split(command):
            raise ValueError("expected the words of a command")
        return command

    port: int = Field(0, ge=0, lt=65536, description="0: any that is free.")
    ready: str = Field(
        "http://127.0.0.1:{port}/v1/models", description="Answers HTTP 200 once the server is up."
    )
    timeout_sec: float = Field(900, gt=0, description="How long to wait for that.")


class CampaignTarget(SettingsPart):
    """One checkpoint, by lm-eval's own names, and what is known of it."""

    name: str = Field(description="In folders and messages; the report names targets by their checkpoints.")
    model: str = Field("hf", description="lm-eval's model type.")
    model_args: str = Field(description="lm-eval's model arguments; {port} is the server's.")
    batch_size: str | None = Field(None, coerce_numbers_to_str=True, description="As in lm_eval.")
    device: str | None = Field(None, description="As in lm_eval.")
    apply_chat_template: bool = Field(True, description="As in lm_eval. Turn off for a base model.")
    family: str | None = Field(None, description="For the report, as are size, released and line.")
    size: float | None = Field(None, gt=0, description="Billions of parameters.")
    released: str | None = Field(None, pattern=r"^\d{4}-(0[1-9]|1[0-2])$", description="YYYY-MM.")
    line: str | None = Field(None, description="Of versions of one model: what they have in common.")
    gpus: float = Field(0, ge=0, description="That it takes: for the estimate, and for Ray.")
    cpus: float = Field(1, ge=0, description="Cores that it takes: for Ray.")
    memory: float = Field(0, ge=0, description="GiB that it takes beside its GPUs' own: for Ray.")
    tokens_per_second: float | None = Field(
        None,
        gt=0,
        description="New tokens, on all its GPUs together: for the estimate, until 5,000 replies "
        "have shown it.",
    )
    prices: PriceSettings | None = Field(None, description="Of an API, for the estimate.")
    server: ServerSettings | None = None
    refresh: bool | dict[str, Any] = Field(
        False, description="Make prompts for it first; settings of a refresh, on top of the campaign's."
    )

    @property
    def served_model(self) -> str:
        """What {model} stands for in a server's command."""
        found = re.search(r"(?:^|,)(?:pretrained|model)=([^,]+)", self.model_args)
        return found[1] if found else self.name

    @property
    def in_reports(self) -> tuple[str, str]:
        """Its name in releases and reports, and what else tells it from others there, as JSON."""
        arguments = (one.partition("=") for one in self.model_args.split(","))
        given = {name.strip(): value.strip() for name, _, value in arguments}
        record = name_target(self.model, given, apply_chat_template=self.apply_chat_template)
        return record.target, json.dumps(how_asked(record), sort_keys=True)


class DecodingSettings(SettingsPart):
    """How replies are drawn."""

    gen_kwargs: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        description="As in lm_eval, on top of the task's: temperature, max_gen_toks, ...",
    )
    repeats: int = Field(
        1, ge=1, description="Runs with seeds of their own; more than one only at a temperature above 0."
    )

    @property
    def sampled(self) -> bool:
        """Whether chance is in the replies."""
        return bool(self.gen_kwargs.get("do_sample")) or float(self.gen_kwargs.get("temperature", 0)) > 0

    @property
    def suffixes(self) -> list[str]:
        """For each repeat, what follows the name of the decoding in the name of its folder."""
        return [""] if self.repeats == 1 else [f"-{repeat}" for repeat in range(1, self.repeats + 1)]

    @model_validator(mode="after")
    def _repeats_differ(self) -> DecodingSettings:
        hot = float(self.gen_kwargs.get("temperature", 0)) > 0  # no number is an error, whatever the rest
        if (self.repeats > 1 or self.sampled) and not hot:
            raise ValueError("expected a temperature above 0 where replies are sampled or repeated")
        for name in self.gen_kwargs:
            near = difflib.get_close_matches(name, _GEN_KWARGS, n=1, cutoff=0.85)
            if near and near[0] != name:
                raise ValueError(f"gen_kwargs.{name}: expected {near[0]}, if that is meant")
        if "seed" in self.gen_kwargs:
            raise ValueError("gen_kwargs.seed is the same for all repeats; expected seed in model_args")
        return self
