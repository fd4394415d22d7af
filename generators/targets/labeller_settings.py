"""The section ``labeller`` of settings files: who labels the replies of a target."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from generators.settings import SettingsSection
from overbench_tasks.labellers.labeller import LabellerKind
from overbench_tasks.labellers.registry import LABELLERS, kind_of


class LabellerSettings(SettingsSection):
    """Who decides whether a reply is a refusal: see :func:`overbench_tasks.labellers.registry.by_name`."""

    by: str = "rules"
    by_args: dict[str, Any] = Field(default_factory=dict)

    @field_validator("by")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        if name not in LABELLERS:
            raise ValueError(f"expected one of {', '.join(LABELLERS)}")
        return name

    @property
    def kind(self) -> LabellerKind:
        """The labeller's entry in the registry."""
        return kind_of(self.by)
