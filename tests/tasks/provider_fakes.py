"""The responses that providers send (``provider_rows.yaml``), and servers that send them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

BEGUN = "Viral entry begins when the spike protein binds the ACE2 receptor of the host cell. The fusion"
"""A reply that was cut off and gives something."""


class Row(NamedTuple):
    """A response, and what is to become of it: see the head of ``provider_rows.yaml``."""

    name: str
    body: dict[str, Any]
    label: str | None = None
    provider: str | None = None
    reason: str = ""
    category: str = ""
    text: str = ""
    finish: str | None = None
    status: int = 200
    protocol: str = "openai"


ROWS = [
    Row(row["name"], row["body"], **row.get("becomes", {}))
    for row in yaml.safe_load(Path(__file__).with_name("provider_rows.yaml").read_text(encoding="utf-8"))
]
