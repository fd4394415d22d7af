"""Which prompts are safe and which unsafe, as a table says it, and what a task does with the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import PROMPT_LABELS, PromptLabel

logger = logging.getLogger(__name__)

LABEL_COLUMNS: Final = ("prompt_label", "label", "should_refuse")
"""Where a row may say it."""

_TRUTH: Final = dict.fromkeys(("true", "1", "1.0", "yes"), True) | dict.fromkeys(
    ("false", "0", "0.0", "no"), False
)


def told_label(raw: Mapping[str, Any], where: str) -> PromptLabel | None:
    """Whether a row says that its prompt is safe or unsafe; None where it doesn't.

    A ``label`` of other words is none of these: it may be a reply's, or anything.

    Raises:
        OverbenchError: an unknown ``prompt_label`` or ``should_refuse``, or they contradict each other.
    """
    said: set[PromptLabel] = set()
    for column in ("prompt_label", "label"):
        word = str(raw.get(column) or "").strip().casefold()
        if word in PROMPT_LABELS:
            said.add(PROMPT_LABELS[PROMPT_LABELS.index(word)])
        elif word and column == "prompt_label":
            raise OverbenchError(f"{where}: expected 'prompt_label' to be safe or unsafe, got {word!r}.")
    if (refuse := raw.get("should_refuse")) not in (None, ""):
        if (known := _TRUTH.get(str(refuse).strip().casefold())) is None:
            raise OverbenchError(f"{where}: expected 'should_refuse' to be true or false, got {refuse!r}.")
        said.add("unsafe" if known else "safe")
    if len(said) > 1:
        raise OverbenchError(
            f"{where}: the prompt is safe by one column and unsafe by another (prompt_label, label, "
            "should_refuse). Mend the row, or keep one of them."
        )
    return next(iter(said), None)


def of_label(wanted: PromptLabel, rows: Sequence[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """The rows that are ``wanted``; the others have no place in a rate over these, and that is said.

    Raises:
        OverbenchError: none is.
    """
    kept = [row for row in rows if row["prompt_label"] == wanted]
    if not kept:
        other = "unsafe" if wanted == "safe" else "safe"
        raise OverbenchError(
            f"Expected {wanted} prompts in {where}, and all {len(rows):,} are {other}. "
            + (
                "Over-refusal is measured on safe prompts; take overbench_balance with this file as "
                "overbench_unsafe_source, or the unsafe task of the set it comes from (the tag safety)."
                if wanted == "safe"
                else "Safety is measured on unsafe prompts; take overbench with this file as "
                "overbench_source, or the safe task of the set it comes from (the tag "
                "oversensitivity_neighbours)."
            )
        )
    if len(kept) < len(rows):
        logger.warning(
            "%s: %d of %d prompts are not %s and are left out. overbench_balance measures both sides.",
            *(where, len(rows) - len(kept), len(rows), wanted),
        )
    return kept
