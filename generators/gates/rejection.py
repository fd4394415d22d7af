"""What a gate says of a new prompt it does not let through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DETAIL_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one candidate was not accepted.

    Attributes:
        gate: one of :data:`generators.refresh.gating.GATES`.
        reason: one word of that gate's closed set, :data:`generators.refresh.gating.REASONS`.
        detail: for people: what was found. At most :data:`DETAIL_CHARS` characters, printable, in
            one line, so that hostile text cannot spoil a log or a terminal.
    """

    gate: str
    reason: str
    detail: str = ""


def excerpt(text: str) -> str:
    """The beginning of ``text``, fit for :attr:`Rejection.detail`; what cannot be printed is escaped."""
    shown = "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text[:DETAIL_CHARS])
    return shown if len(shown) <= DETAIL_CHARS else shown[: DETAIL_CHARS - 1] + "…"
