"""What a gate says of a new prompt it does not let through."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one candidate was not accepted.

    Attributes:
        gate: one of :data:`generators.refresh.gating.GATES`.
        reason: one word of that gate's closed set, such as
            :data:`~generators.gates.form.FORM_REASONS`.
        detail: for people: what was found; an :func:`~overbench_tasks.text.excerpt`, so that hostile
            text cannot spoil a log or a terminal.
    """

    gate: str
    reason: str
    detail: str = ""
