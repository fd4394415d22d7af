"""A report and its sections, and functions that several sections use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from overbench.report.figures import Picture
from overbench_tasks.display import Piece, Table
from overbench_tasks.metrics import Rate
from overbench_tasks.records import CATEGORIES


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Attributes:
        key: for links.
        paragraphs: an explanation of the section, before its pictures.
        below: paragraphs behind the pictures.
        shades: samples of the shading, each with its meaning.
        folded: tables under a heading of their own that opens on demand.
    """

    key: str
    title: str
    paragraphs: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: tuple[tuple[str, Table], ...] = ()
    below: tuple[str, ...] = ()
    shades: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    lead: tuple[str, ...]
    notes: tuple[str, ...]
    sections: tuple[Section, ...]


def category_name(category: str | None) -> str:
    """A category in words."""
    if category in CATEGORIES:
        return category.replace("_", " ").capitalize()
    return category or "none given"


def highest_first(rates: Mapping[str, Rate]) -> list[str]:
    return sorted(rates, key=lambda target: (math.isnan(rates[target].value), -rates[target].value, target))
