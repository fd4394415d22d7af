"""What a report is made of, and what its sections share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from overbench.report.figures import Picture
from overbench_tasks.metrics import Estimate, Rate
from overbench_tasks.records import CATEGORIES
from overbench_tasks.text import visible


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Attributes:
        key: for links.
        paragraphs: what is shown and how to read it.
        below: what to know once the pictures have been seen.
        shades: samples of the shading, each with what it stands for.
        folded: tables under a heading of their own that opens on demand.
    """

    key: str
    title: str
    paragraphs: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    folded: tuple[tuple[str, ReportTable], ...] = ()
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


NONE = "–"
"""What a cell without a value shows."""

Piece = tuple[str, int]
"""Some text, and how strongly it is shaded: 0 (not at all) to 5."""


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        text: as shown; nothing in it is markup.
        sort: what the column is ordered by in place of the text; NaN sorts as the lowest.
        pieces: the text in pieces, where words of it are shaded.
        detail: a second, smaller line.
    """

    text: str
    sort: float | None = None
    pieces: tuple[Piece, ...] = ()
    detail: str = ""

    @property
    def sort_key(self) -> str:
        """For HTML's ``data-order``; "" where the text itself decides."""
        if self.sort is None:
            return ""
        return "-1e9" if math.isnan(self.sort) else repr(float(self.sort))


@dataclass(frozen=True)
class ReportTable:
    """A table with a header row; the first cell of each row is the row's header.

    Attributes:
        key: for links and tests; a word of letters and hyphens.
        caption: what the table shows and how to read it.
        columns: the headers.
        rows: as many cells each as there are columns.
        numeric: the places of columns of numbers, shown flush right.
        ordered_by: the column that orders the rows at first, and whether upwards; None: as they come.
        wide: holds long text; gets room in place of single lines.

    Raises:
        ValueError: a row with too few or too many cells.
    """

    key: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: frozenset[int] = frozenset()
    ordered_by: tuple[int, bool] | None = None
    wide: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.key}: expected {len(self.columns)} cells in a row, got {len(row)}")


def text(value: object) -> Cell:
    """Any text from outside, with control characters made visible; None shows as a dash."""
    return Cell(visible(str(value)) if value not in (None, "") else NONE)


def percent(share: Estimate | float, *, with_n: bool = False) -> Cell:
    """A share in [0, 1] as a percentage; of an estimate with its interval below, and how many it rests on.

    NaN, a share of nothing, shows as a dash.
    """
    estimate = share if isinstance(share, Estimate) else Estimate(share, math.nan, math.nan)
    value, low, high = estimate.value, estimate.low, estimate.high
    details = [] if math.isnan(low) else [f"{100 * low:.1f}–{100 * high:.1f}"]
    details += [f"n = {estimate.n:,}"] if with_n else []
    return Cell(f"{100 * value:.1f} %" if estimate.defined else NONE, value, detail=", ".join(details))


def coefficient(estimate: Estimate) -> Cell:
    """A coefficient in [-1, 1] with its interval, where it has one, below."""
    value, low, high = estimate.value, estimate.low, estimate.high
    return Cell(f"{value:+.2f}", value, detail="" if math.isnan(low) else f"{low:+.2f} to {high:+.2f}")


def shares(summed: float) -> Cell:
    """A number of prompts, or of models, some of which may count by a share."""
    return Cell(f"{summed:,.0f}" if summed == round(summed) else f"{summed:,.1f}", summed)


def make(
    key: str,
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    ordered_by: tuple[int, bool] | None = None,
    wide: bool = False,
) -> ReportTable:
    """A table of cells, rates, counts and texts; columns whose cells all sort by value are numeric."""
    made = tuple(tuple(map(_cell, row)) for row in rows)
    texts = {place for row in made for place, cell in enumerate(row) if cell.sort is None}
    numeric = frozenset(range(len(columns)) if made else ()) - texts
    return ReportTable(key, caption, tuple(columns), made, numeric, ordered_by, wide)


def _cell(value: object) -> Cell:
    if isinstance(value, Cell):
        return value
    if isinstance(value, Rate):
        return percent(value, with_n=True)
    return Cell(f"{value:,}", value) if isinstance(value, int) else text(value)
