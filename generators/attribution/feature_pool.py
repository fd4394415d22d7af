"""How often each feature has been used, so that no word dominates the set (Pu et al. 2025, Algorithm 1).

pool = FeaturePool(PoolSettings())
for feature in pool.drawable(features(attribution, settings)):
    ...  # write a prompt; where the detector refuses it:
    pool.add(feature)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict, Field

from overbench_tasks.errors import OverbenchError


class FeaturePoolError(OverbenchError):
    """A saved feature pool is none."""


class PoolSettings(BaseModel):
    """When a feature is used up.

    How many features a prompt has, and whether they are lemmas or words as written, is set where they
    are made: :class:`~generators.attribution.attribution.AttributionSettings`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cap: int = Field(
        50,
        ge=1,
        description="times that a feature is used over the whole run (T in the paper) before it is out",
    )


class FeaturePool:
    """Counts of use over all prompts and rounds of a run."""

    def __init__(self, settings: PoolSettings, counts: Mapping[str, int] | None = None) -> None:
        self.settings = settings
        self._counts = Counter(counts or {})

    @property
    def counts(self) -> dict[str, int]:
        """Feature -> times used; features never used are not in it."""
        return dict(self._counts)

    def drawable(self, features: Iterable[str]) -> list[str]:
        """Those of the features that are not used up, in their order. Ask before each round."""
        return [feature for feature in features if self._counts[feature] < self.settings.cap]

    def add(self, feature: str) -> None:
        """Count one use. Uses of a round that was begun below the cap may go beyond it."""
        self._counts[feature] += 1

    def most_used(self, n: int) -> list[tuple[str, int]]:
        """The n most used features with their counts; equal counts in alphabetical order."""
        return sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))[:n]

    def to_json(self) -> dict[str, int]:
        """The counts in alphabetical order: equal pools give equal files, however they were filled."""
        return dict(sorted(self._counts.items()))

    @classmethod
    def from_json(cls, row: Mapping[str, int], settings: PoolSettings) -> FeaturePool:
        """The pool that :meth:`to_json` wrote, under any settings.

        Raises:
            FeaturePoolError: the row is not feature -> number of uses.
        """
        for feature, uses in row.items():
            if not isinstance(uses, int) or isinstance(uses, bool) or uses < 0:
                raise FeaturePoolError(
                    f"Expected how many times the feature {feature!r} was used, but found {uses!r}. "
                    "Restore the feature pool's file, or delete it to count afresh."
                )
        return cls(settings, row)
