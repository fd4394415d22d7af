"""The gates a new prompt passes, in their order, and the three that need no model.

The cheapest come first: what ``form``, ``novelty`` and ``presence`` turn away costs no call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, get_args

from generators.form import FORM_REASONS, FormSettings, form_problem
from generators.novelty import NOVELTY_REASONS, Novelty
from generators.presence import PRESENCE_REASONS, Form, presence_problem
from generators.rejection import Rejection

Gate = Literal["form", "novelty", "presence", "detector", "moderation"]

GATES: Final[tuple[Gate, ...]] = get_args(Gate)
"""The order in which candidates meet them; a rejection names the first that says no."""

REASONS: Final[Mapping[Gate, tuple[str, ...]]] = {
    "form": FORM_REASONS,
    "novelty": NOVELTY_REASONS,
    "presence": PRESENCE_REASONS,
    "detector": ("not_refused",),
    "moderation": ("not_benign",),
}
"""Every reason each gate gives, so that a count of zero can be shown too."""


class Candidate(NamedTuple):
    """A new prompt and the feature it was written around."""

    prompt: str
    feature: str


def local_rejections(
    candidates: Iterable[Candidate],
    novelty: Novelty,
    form: FormSettings,
    word_form: Form = "surface",
) -> list[Rejection | None]:
    """What the form, novelty and presence gates say of each candidate.

    Nothing is changed: ``novelty`` knows what was added to it before, and candidates of one call are
    not compared with each other. The caller adds what passes *all* gates, in order, and asks
    :meth:`~generators.novelty.Novelty.problem` once more just before it does so, because a twin
    may have been accepted in between.

    Args:
        candidates: in the order of the result.
        novelty: holds the seeds, the bundled sets and what the run has accepted so far.
        form: see :class:`~generators.form.FormSettings`. Its language is that of the lemmas, too.
        word_form: see :func:`~generators.presence.presence_problem`.

    Returns:
        per candidate the first rejection, or None.
    """
    language = form.language or "en"
    return [
        form_problem(prompt, form)
        or novelty.problem(prompt)
        or presence_problem(prompt, feature, word_form, language)
        for prompt, feature in candidates
    ]
