"""What a report is made of, and what its sections share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath

from generators.report.figures import Picture, Series
from generators.report.report_inputs import Inputs, PromptSet
from generators.report.table import Piece, ReportTable
from overbench_tasks.metrics import Rate

SYSTEM_MARK = " +system"
"""What marks a configuration with a system instruction, where all have the same one."""

_SYSTEM = re.compile(r" \+system:([0-9a-f]{8})(?= |$)")

CATEGORY_NAMES = {
    "illegal_activities": "Illegal activities",
    "privacy_invasion": "Privacy invasion",
    "violence_and_harm": "Violence and harm",
    "bias_and_discrimination": "Bias and discrimination",
    "others": "Others",
}


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


def short_names(inputs: Inputs) -> dict[str, str]:
    """Target -> its name in the report: of a local path the last part, and of a system instruction only that
    there is one, where that stays unambiguous."""
    targets = [target for one in inputs.sets for target in one.matrix.targets]
    shown = {target: last_part(target) for target in dict.fromkeys(targets)}
    if len({hashed for name in shown.values() for hashed in _SYSTEM.findall(name)}) == 1:
        shown = {target: _SYSTEM.sub(SYSTEM_MARK, name) for target, name in shown.items()}
    taken = Counter(shown.values())
    return {target: name if taken[name] == 1 else target for target, name in shown.items()}


def last_part(target: str) -> str:
    path, comma, rest = target.partition(",")
    path, system, added = (path, "", "") if comma else target.partition(" +system")
    if path.startswith(("/", "~")):
        path = PurePosixPath(path).name
    elif PureWindowsPath(path).is_absolute():
        path = PureWindowsPath(path).name
    return f"{path}{comma}{rest}{system}{added}"


def category_name(category: str | None) -> str:
    """A category in words."""
    return CATEGORY_NAMES.get(category or "", category or "none given")


def highest_first(rates: Mapping[str, Rate]) -> list[str]:
    return sorted(rates, key=lambda target: (math.isnan(rates[target].value), -rates[target].value, target))


def set_name(one: PromptSet) -> str:
    return f"{one.name} ({len(one.matrix.prompt_ids):,} prompts)"


def alt_of_bars(what: str, rows: Sequence[str], series: Sequence[Series]) -> str:
    """The whole figure in words where it is small, else its ends; the table has all of it."""
    told = []
    for one in series:
        pairs = [(row, value) for row, value in zip(rows, one.values, strict=True) if not math.isnan(value)]
        shown = pairs if len(pairs) <= 8 else [*pairs[:3], *pairs[-2:]]
        values = ", ".join(f"{row} {100 * value:.0f} %" for row, value in shown)
        told.append(f"{one.name}: {values or 'no values'}")
    return f"{what}. {'; '.join(told)}."
