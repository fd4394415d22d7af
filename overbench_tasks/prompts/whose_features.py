"""Where the ``features`` of a prompt come from: attribution, or the person or model that wrote the prompt.

Only a refresh attributes: it has a detector of one target's refusals name the words of a seed that set it
off, and writes prompts around these. Its prompts have a ``round``. Any other prompt's words are what its
writer, or its file, names; that they set a model off nobody has shown.
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
