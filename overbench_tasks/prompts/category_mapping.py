"""Other sets' names of categories, and what they are called here and in OR-Bench.

A name that is not in the table is kept as it is, and stands for none of the five. XSTest's kinds of wording
(homonyms, figurative language, ...) name no risk, but for those on privacy, discrimination and history.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from overbench_tasks.records import CATEGORIES, Category


class Mapped(NamedTuple):
    """One of our five and one of OR-Bench's ten; None where none fits."""

    category: Category | None
    or_bench_category: str | None


UNKNOWN: Final = Mapped(None, None)

_OR_BENCH: Final[dict[str, Mapped]] = {
    "deception": Mapped("others", "deception"),
    "harassment": Mapped("others", "harassment"),
    "harmful": Mapped("violence_and_harm", "harmful"),
    "hate": Mapped("bias_and_discrimination", "hate"),
    "illegal": Mapped("illegal_activities", "illegal"),
    "privacy": Mapped("privacy_invasion", "privacy"),
    "self-harm": Mapped("others", "self-harm"),
    "sexual": Mapped("others", "sexual"),
    "unethical": Mapped("others", "unethical"),
    "violence": Mapped("violence_and_harm", "violence"),
}
_XSTEST: Final[dict[str, Mapped]] = {
    **dict.fromkeys(("privacy_public", "privacy_fictional", "contrast_privacy"), _OR_BENCH["privacy"]),
    **dict.fromkeys(("real_group_nons_discr", "nons_group_real_discr", "contrast_discr"), _OR_BENCH["hate"]),
    **dict.fromkeys(("historical_events", "contrast_historical_events"), _OR_BENCH["violence"]),
    **{
        f"{prefix}{kind}": UNKNOWN
        for kind in ("homonyms", "figurative_language", "safe_targets", "safe_contexts", "definitions")
        for prefix in ("", "contrast_")
    },
}
TABLE: Final[dict[str, Mapped]] = {**_OR_BENCH, **_XSTEST}
"""The table of task_configs/README.md: a set's own name -> ours and OR-Bench's."""


def slug(name: str) -> str:
    return re.sub(r"[\s_&-]+", "_", name.strip().casefold().replace("&", " and "))


_BY_SLUG: Final[dict[str, Mapped]] = {
    **{slug(name): mapped for name, mapped in TABLE.items()},
    **{name: Mapped(name, None) for name in CATEGORIES},
}


def mapped_category(name: str) -> Mapped:
    """What a category of any set is here: by name, in any case, with blanks, hyphens or underscores.

    One of our five maps to itself, and to none of OR-Bench's, which splits them otherwise.
    """
    return _BY_SLUG.get(slug(name), UNKNOWN)
