"""Shades the trigger words in a prompt by how often, at least, prompts with them are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from generators.report.table import Piece
from overbench_tasks.text import visible

STEPS = 5
"""Shades from 1, hardly ever refused, to this, always refused."""


def shade(rate: float) -> int:
    """1 to :data:`STEPS` for a rate in [0, 1], in even steps; 1 for NaN, a word nobody has measured."""
    if math.isnan(rate):
        return 1
    return min(STEPS, 1 + int(rate * STEPS))


def shade_key() -> tuple[Piece, ...]:
    """A sample of each shade: the rates that it stands for."""
    step = 100 // STEPS
    return tuple((f"{step * n}–{step * (n + 1)} %", n + 1) for n in range(STEPS))


def shaded(prompt: str, rates: Mapping[str, float]) -> tuple[Piece, ...]:
    """The prompt in pieces, its trigger words shaded.

    Args:
        prompt: any text. Characters that steer a page or a terminal come out as visible symbols.
        rates: trigger word or phrase -> refusal rate of the prompts that carry it. A word is found
            whole, in any case, with any white space between its parts; where two overlap, the one that
            starts first, then the longer one.

    Returns:
        the pieces, which together are ``visible(prompt)``.
    """
    by_key = {_key(word): rate for word, rate in rates.items() if word.strip()}
    longest_first = sorted(by_key, key=lambda word: (-len(word), word))
    if not longest_first:
        return ((visible(prompt), 0),)
    phrases = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest_first)
    pieces: list[Piece] = []
    after = 0
    for match in re.finditer(rf"(?<!\w)(?:{phrases})(?!\w)", prompt, re.IGNORECASE):
        if match.start() > after:
            pieces.append((visible(prompt[after : match.start()]), 0))
        pieces.append((visible(match[0]), shade(by_key.get(_key(match[0]), math.nan))))
        after = match.end()
    if after < len(prompt) or not pieces:
        pieces.append((visible(prompt[after:]), 0))
    return tuple(pieces)


def _key(word: str) -> str:
    return " ".join(word.casefold().split())
