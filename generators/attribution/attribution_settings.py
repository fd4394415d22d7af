"""How words are scored, and features chosen by their scores."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator

from generators.settings import SettingsSection
from generators.words import Form

Output = Literal["log_odds", "probability"]
"""What is attributed: the detector's log-odds of refusal, or their sigmoid."""

Method = Literal["adaptive", "captum"]
"""How the path integral is computed."""

CPU_TOKENS: Final = 1024
ACCELERATOR_TOKENS: Final = 16_384


class AttributionSettings(SettingsSection):
    """The field descriptions are the documentation."""

    output: Output = Field(
        "log_odds",
        description="what is attributed: the log-odds of refusal, or its probability, the sigmoid of them, "
        "which hardly moves where the detector is sure",
    )
    method: Method = Field(
        "adaptive",
        description="how the path integral is computed: adaptive, with points of each prompt's own, more "
        "where its path is steep; or captum, its IntegratedGradients as it comes, one prompt at a time",
    )
    n_steps: int = Field(
        50, ge=1, description="points along the path of method captum, for every prompt as many"
    )
    steps: int = Field(11, ge=2, description="points along the path that every prompt gets first")
    max_steps: int = Field(
        192, ge=2, description="a prompt above tolerance gets more, where its path is steep, up to these"
    )
    tolerance: float = Field(
        0.007,
        gt=0,
        lt=1,
        description="highest |sum of scores - (F(x) - F(baseline))|, as a share of |F(x) - F(baseline)|, "
        "where F is the output",
    )
    difference_floor: float = Field(
        0.1,
        ge=0,
        description="the tolerance is a share of at least this difference of the output, "
        "so that a prompt that hardly differs from its baseline is not integrated without end",
    )
    baseline: Literal["pad", "mask"] = Field(
        "pad",
        description="token that stands for an absent word; mask where an encoder's pad token is the zero "
        "vector and normalised at once, so that the log-odds leap at the start of the path",
    )
    max_length: int | None = Field(
        None,
        ge=3,
        description="tokens per prompt, special ones included; unset: as many as the detector takes",
    )
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="tokens in one pass, all prompts, points and padding counted; memory grows with it; "
        f"unset: {CPU_TOKENS:,} on a CPU, where more gain nothing, else {ACCELERATOR_TOKENS:,}",
    )
    beta: float = Field(
        1.0, ge=0, description="power of the word's frequency by which its score is divided; 0: raw scores"
    )
    frequency_floor: float = Field(
        1e-6,
        gt=0,
        le=1,
        description="share of all English words; rarer and unseen words (misspellings, other languages) "
        "count as common as this",
    )
    min_share: float = Field(
        0.02,
        ge=0,
        lt=1,
        description="lowest raw score of a feature, as a share of the prompt's highest among words that "
        "could be features: smaller ones cannot be told from 0 within the tolerance, but a rare word's "
        "small frequency would lift it all the same",
    )
    top_k: int = Field(3, ge=1, description="features per prompt, at most")
    exclude_words: bool = Field(
        True,
        description="function words, numbers, names and endless words make no features; false: only marks "
        "between words make none",
    )
    form: Form = Field("surface", description="features as written (casefolded), or their English lemma")

    def room(self, device: str) -> int:
        """Tokens in one pass, on a device of torch's type ``cpu`` or another."""
        return self.batch_tokens or (CPU_TOKENS if device == "cpu" else ACCELERATOR_TOKENS)

    @model_validator(mode="after")
    def _ordered(self) -> AttributionSettings:
        if self.max_steps < self.steps:
            raise ValueError(f"max_steps must be at least steps ({self.steps}), but is {self.max_steps}")
        return self
