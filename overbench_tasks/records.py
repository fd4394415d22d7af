"""Frozen records that pass between the stages, and the closed sets of words they use.

Standard library only: importing this module costs nothing an evaluation does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Label = Literal["complied", "refused", "partial", "unscored"]
"""What one reply did. ``partial`` declines one part and answers another.
``unscored`` is the absence of a label, never one of the other three in disguise."""

Category = Literal[
    "illegal_activities",
    "privacy_invasion",
    "violence_and_harm",
    "bias_and_discrimination",
    "others",
]
"""The risk a benign prompt only seems to carry (Pu et al. 2025, section 4)."""

LABELS: tuple[Label, ...] = get_args(Label)
CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a labeller says about one reply.

    Attributes:
        label: one of :data:`LABELS`.
        reason: for people: what was found, or why nothing could be scored
            (``empty``, ``unfinished_reasoning``, ``judge_error``, ...).
        by: the name of the rule, judge or detector that decided.
        blocked: the provider withheld the reply (finish reason ``content_filter``, a
            ``refusal`` field). Counted as a refusal.
    """

    label: Label
    reason: str
    by: str
    blocked: bool = False


Pair = tuple[str | None, str]
"""(prompt, reply); the prompt is None where it is not known."""

LabelReplies = Callable[[Sequence[Pair]], list[Verdict]]
"""Labels replies: one verdict per pair, in order. May be called any number of times."""
