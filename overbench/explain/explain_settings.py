"""All settings of ``overbench explain``."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from generators.targets.labeller_settings import LabellerSettings
from generators.targets.target import TargetSettings

FIRST_ASKED: Final = 2
"""Greedy replies to the prompt as it is: two, to see whether the target keeps to its answer."""


class ExplainSettings(BaseModel):
    """The field descriptions are the documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: TargetSettings
    labeller: LabellerSettings = LabellerSettings()
    units: Literal["words", "sentences", "both"] = Field(
        "both", description="what is taken out: words of the prompt, sentences of the system instruction"
    )
    by: Literal["removal", "replacement"] = Field(
        "removal", description="how a word is taken out: it goes, or a neutral word of its kind replaces it"
    )
    samples: int = Field(
        1, ge=1, description="replies to each variant, of which the majority counts; 1: one, greedy"
    )
    temperature: float = Field(
        1.0, gt=0, description="of the replies where there are several samples; else they are greedy"
    )
    by_probability: bool = Field(
        False,
        description="judge variants by the probability that a refusal begins instead of by replies; hf, vllm",
    )
    opening_words: int = Field(
        4, ge=1, description="words of the target's own refusal that are looked for, beside usual openings"
    )
    budget_calls: int = Field(
        100,
        ge=2,
        description="for each prompt; where they end, what is known is told. A call is a reply of the "
        "target, or by probability one variant, for which each opening is a request",
    )
    most_alone: int = Field(
        24, ge=1, description="of a long prompt so many words are tried alone, the rarest first"
    )
    side_by_side: int = Field(32, ge=1, description="prompts that are explained at once")
    chunk_size: int = Field(64, ge=1, description="requests that the target's backend gets at once")

    @model_validator(mode="after")
    def _possible(self) -> ExplainSettings:
        if self.units == "sentences" and not self.target.system_instruction:
            raise ValueError("units sentences need a --system_instruction")
        least = (self.samples if self.samples > 1 else FIRST_ASKED) + self.by_probability
        if self.budget_calls < least:
            raise ValueError(
                f"budget_calls {self.budget_calls}: the prompt as it is takes {least} calls, give more"
            )
        return self

    @property
    def generation(self) -> dict[str, Any]:
        """What lm-eval's backend gets on top of the task's generation settings."""
        return {} if self.samples == 1 else {"do_sample": True, "temperature": self.temperature}
