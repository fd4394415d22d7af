"""Prompts in random order, and a random part of them that is spread over their categories.

Neither depends on the order in which the prompts come. A part is a systematic sample (Madow and Madow 1944):
the prompts stand by category, those of one category in random order, and every k-th is taken from a random
start. So each category has its share, rounded up or down, and each prompt is as likely to be drawn as any
other: the plain rate on the part estimates that on all prompts without bias.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Unit = list[dict[str, Any]]
"""Rows that are drawn together."""


def random_order(ids: Iterable[str], random_seed: int = 0) -> list[str]:
    """The ids in an order that depends only on the ids and the random seed, by SHA-256.

    It is the same on every machine, and for any order of the input. If an id is added or removed, the others
    keep their relative order.
    """
    return sorted(
        ids,
        key=lambda identity: hashlib.sha256(
            f"{random_seed}:{identity}".encode("utf-8", "surrogatepass")
        ).digest(),
    )


def every_kth(order: Sequence[int], size: int, start: int) -> list[int]:
    """``size`` evenly spaced items; over all starts, each item is drawn equally often.

    Args:
        size: 0 to as many as there are.
        start: from 0 to below as many as there are.
    """
    return [order[(start + number * len(order)) // size] for number in range(size)]


def in_random_order(
    rows: Iterable[Mapping[str, Any]], size: int | None = None, random_seed: int = 0
) -> list[dict[str, Any]]:
    """Rows by :func:`random_order` of their ids. Rows that share a ``pair_id`` stay together, in their order.

    Args:
        rows: with ``id``, ``prompt_label`` and ``category``.
        size: the most rows to draw. If every row shares its ``pair_id`` with another row, whole pairs are
            drawn, at least one; else equally many safe and unsafe rows, as far as possible.
        random_seed: of the order and the draw.
    """
    together: dict[str, Unit] = defaultdict(list)
    for row in rows:
        together[row.get("pair_id") or row["id"]].append(dict(row))
    ordered = [together[identity] for identity in random_order(together, random_seed)]
    if size is not None:
        drawn = _drawn(ordered, size, random_seed)
        ordered = [[row for row in unit if row["id"] in drawn] for unit in ordered]
    return [row for unit in ordered for row in unit]


def _drawn(units: Sequence[Unit], size: int, random_seed: int) -> set[str]:
    """The ids of the rows that are drawn from units in random order."""
    sides: dict[str, list[Unit]] = defaultdict(list)
    if all(len(unit) > 1 for unit in units):
        sides["pairs"], size = list(units), max(1, size // 2)
    else:
        for row in (row for unit in units for row in unit):
            sides[row["prompt_label"]].append([row])
    drawn: set[str] = set()
    smallest_first = sorted(sides.items(), key=lambda item: (len(item[1]), item[0]))
    for done, (side, of_side) in enumerate(smallest_first):
        share = min(len(of_side), size // (len(sides) - done))
        size -= share
        by_category = sorted(of_side, key=lambda unit: str(unit[0]["category"] or ""))
        start = random.Random(f"{random_seed} {side}").randrange(len(of_side))  # noqa: S311 - no secret
        for at in every_kth(range(len(of_side)), share, start):
            drawn |= {row["id"] for row in by_category[at]}
    return drawn
