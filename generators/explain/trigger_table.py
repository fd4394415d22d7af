"""Over many explained prompts: the words and sentences most refusals hinge on, and what mending gains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from generators.explain.explanation import Explanation, FoundTriggers
from generators.explain.text_parts import running_words
from generators.words import pool_form
from overbench_tasks.metrics import Rate

SHORT_PROMPT_WORDS = 40
"""Calls are told for prompts of up to so many running words apart: longer ones take more."""


@dataclass(frozen=True, slots=True)
class TriggerCount:
    """One word (in its dictionary form) or sentence over a set of refused prompts.

    Attributes:
        alone: prompts whose refusal turns when it alone is taken out: what mending it would gain. A prompt
            may count for several words, so that these don't add up.
        together: further prompts in which it is part of a minimal trigger of several.
        prompts: refused prompts in which it stands and was tried.
    """

    text: str
    alone: int
    together: int
    prompts: int


def trigger_counts(
    found: Iterable[FoundTriggers], form: Callable[[str], str] = lambda text: text
) -> list[TriggerCount]:
    """The parts that are in minimal triggers, those first on which most refusals hinge."""
    alone, together, prompts = Counter[str](), Counter[str](), Counter[str]()
    for one in found:
        single = {
            form(one.parts[part].text) for trigger in one.triggers if len(trigger) == 1 for part in trigger
        }
        every = {form(text) for text in one.texts(sorted(one.in_triggers))}
        alone.update(single)
        together.update(every - single)
        prompts.update({form(text) for text in one.texts(one.tried)})
    rows = [TriggerCount(name, alone[name], together[name], prompts[name]) for name in alone | together]
    return sorted(rows, key=lambda row: (-row.alone, -row.together, row.prompts, row.text))


def word_form(word: str) -> str:
    """The word as the table counts it: in its English dictionary form."""
    return pool_form(word, "lemma")


def summary(explained: Sequence[Explanation]) -> dict[str, Any]:
    """What ``summary.json`` holds: counts, medians, the triggers; null where there is nothing to count."""
    refused = [one for one in explained if one.state == "refused"]
    words = [one.words for one in refused if one.words]
    sentences = [one.sentences for one in refused if one.sentences]
    short = [
        one.calls for one in refused if one.words and running_words(one.words.parts) <= SHORT_PROMPT_WORDS
    ]
    return {
        "prompts": len(explained),
        "states": dict(Counter(one.state for one in explained)),
        "calls": sum(one.calls for one in explained),
        "calls_median": _median([one.calls for one in refused]),
        f"calls_median_up_to_{SHORT_PROMPT_WORDS}_words": _median(short),
        "words": _search_summary(words, word_form),
        "sentences": _search_summary(sentences),
    }


def _search_summary(
    found: Sequence[FoundTriggers], form: Callable[[str], str] = lambda text: text
) -> dict[str, Any] | None:
    if not found:
        return None
    sizes = [min(map(len, one.triggers)) for one in found if one.triggers]
    return {
        "searched": len(found),
        "states": dict(Counter(one.state for one in found)),
        "trigger_sizes": {str(size): count for size, count in sorted(Counter(sizes).items())},
        "trigger_size_median": _median(sizes),
        "triggers": [
            {"text": row.text, "alone": row.alone, "together": row.together, "prompts": row.prompts}
            for row in trigger_counts(found, form)
        ],
    }


def gain(row: TriggerCount, searched: int) -> Rate:
    """The share of the refusals that hinge on it."""
    return Rate(row.alone, searched)


def _median(values: Sequence[int]) -> float | None:
    return float(median(values)) if values else None
