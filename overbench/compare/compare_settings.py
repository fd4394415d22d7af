"""When ``overbench compare`` calls a target worse."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CompareSettings(BaseModel):
    """The rule, which :mod:`overbench.compare.decision` applies."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_increase: float = Field(
        0.02,
        ge=0,
        lt=1,
        description="A rate may rise by so much (0.02: two points) before NEW counts as worse.",
    )
    alpha: float = Field(
        0.05, gt=0, lt=1, description="The chance of calling NEW worse where nothing but chance is at work."
    )
    min_prompts: int = Field(
        100, ge=1, description="With fewer common prompts, scored on both sides, the data can't tell."
    )
    max_unscored: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Where more of the common prompts have no scored reply of a side, the data can't tell.",
    )
    strict: bool = Field(
        False, description="Let it fail (exit code 2) unless a larger rise than max_increase is ruled out."
    )
    relabel: bool = Field(
        False, description="Label the replies of all logs anew, by today's rules, as for overbench aggregate."
    )
