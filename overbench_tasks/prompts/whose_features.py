"""Where the ``features`` of a prompt come from: attribution, or the person or model that wrote the prompt.

Only a refresh attributes: it finds the words of a seed that make a detector of one target's refusals expect a
refusal, and writes prompts around these words. Its prompts have a ``round``. For any other prompt, the words
are those that its writer or file names; it is not shown that they cause refusals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def refresh_round(row: Mapping[str, Any]) -> int | None:
    """The round of the refresh that made a prompt; None if its row has no valid round."""
    text = str(row.get("round") or "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def attributed_features(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The row's ``features`` if attribution found them, else an empty list."""
    return () if refresh_round(row) is None else tuple(row.get("features") or ())


def named_features(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The row's ``features`` if its writer or file names them, else an empty list."""
    return tuple(row.get("features") or ()) if refresh_round(row) is None else ()
