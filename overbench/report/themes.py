"""What all figures share: colours of light and dark pages, sizes, and names that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Theme:
    """Colours of one page; the series colours are told apart by colour-blind readers (Okabe and Ito)."""

    ground: str
    ink: str
    faint: str
    series: tuple[str, ...]
    shades: str


LIGHT = Theme(
    "#ffffff",
    "#1b1f24",
    "#c9ced6",
    ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b07d00", "#6b6f75"),
    "rocket_r",
)
DARK = Theme(
    "#16191d",
    "#e4e7eb",
    "#454c55",
    ("#56b4e9", "#e69f00", "#2fc79a", "#e08fc0", "#8fa7ff", "#f0e442", "#a9afb7"),
    "rocket",
)

WIDE, NARROW = 8.4, 3.45
"""Inches; at 96 pixels per inch a figure is shown at its own size, so that its text keeps its size."""


def is_narrow(width: float) -> bool:
    """Whether a figure of this width is one for a phone."""
    return width < (WIDE + NARROW) / 2


def style(theme: Theme) -> dict[Any, Any]:
    """Settings of matplotlib."""
    return {
        "axes.edgecolor": theme.faint,
        "axes.facecolor": theme.ground,
        "axes.labelcolor": theme.ink,
        "figure.facecolor": theme.ground,
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "svg.fonttype": "path",
        "svg.hashsalt": "overbench",
        "text.color": theme.ink,
        # Names of models and words of prompts are no formulas, whatever dollar signs they hold.
        "text.parse_math": False,
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
    }


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of its own, not one of pyplot's, with one pair of axes; sizes in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def shortened(names: Sequence[str], length: int) -> list[str]:
    """The names; where one is too long, all without organisation if they stay different, then cut inside."""
    bare = [name.rpartition("/")[2] for name in names]
    too_long = any(len(name) > length for name in names)
    chosen = bare if too_long and len(set(bare)) == len(set(names)) else names
    return [short(name, length) for name in chosen]


def short(name: str, length: int) -> str:
    """The name, its middle left out where it is too long: ends tell configurations apart."""
    if len(name) <= length:
        return name
    half = (length - 1) // 2
    return f"{name[:half]}…{name[-(length - 1 - half) :]}"
