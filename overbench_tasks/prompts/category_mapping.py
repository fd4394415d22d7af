"""Maps the categories of any set to our categories and to OR-Bench's.

The sets' own names come from :mod:`overbench_tasks.prompts.neighbour_sets`. A name that no set has is kept as
it is, and maps to none of the five.
"""

from __future__ import annotations

import re
from typing import Final

from overbench_tasks.prompts.neighbour_sets import NEIGHBOURS, Mapped
from overbench_tasks.records import CATEGORIES

UNKNOWN: Final = Mapped(None, None)

TABLE: Final[dict[str, Mapped]] = {
    name: mapped for neighbour in NEIGHBOURS.values() for name, mapped in neighbour.categories.items()
}
"""A set's own name -> ours and OR-Bench's."""


def slug(name: str) -> str:
    """A name of a category in small letters, with underscores between its words."""
    return re.sub(r"[\s_&-]+", "_", name.strip().casefold().replace("&", " and "))


_BY_SLUG: Final[dict[str, Mapped]] = {
    **{slug(name): mapped for name, mapped in TABLE.items()},
    **{name: Mapped(name, None) for name in CATEGORIES},
}


def mapped_category(name: str) -> Mapped:
    """Our category for a category of any set, by its name, in any case, with blanks, hyphens or underscores.

    Each of our five maps to itself, and to none of OR-Bench's ten, which are divided differently.
    """
    return _BY_SLUG.get(slug(name), UNKNOWN)
