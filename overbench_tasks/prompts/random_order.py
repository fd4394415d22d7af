"""Prompts in an order that tells nothing: the first so many are a random part of them all."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any


def random_order(ids: Iterable[str], seed: int = 0) -> list[str]:
    """The ids in an order that only they and the seed decide, by SHA-256: the same on every machine, whatever
    order they came in, and with an id more or less the others keep their places."""
    return sorted(
        ids, key=lambda one: hashlib.sha256(f"{seed}:{one}".encode("utf-8", "surrogatepass")).digest()
    )


def in_random_order(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with an ``id``, by :func:`random_order`; those that share a ``pair_id`` together, as they came."""
    together: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        together[row.get("pair_id") or row["id"]].append(dict(row))
    return [row for one in random_order(together) for row in together[one]]
