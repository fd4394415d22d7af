"""What becomes of a candidate before anybody votes on it: is it a prompt, in form, and new?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generators.adversary.adversary import Written
from generators.prompt_filters.form import form_problem
from generators.prompt_filters.moderation_classifier import Vote
from generators.prompt_filters.novelty import Novelty
from generators.prompt_filters.rejection import Rejection
from generators.rewrite.rewrite_settings import RewriteFilterSettings
from generators.rewrite.toxic_seeds import ToxicSeed
from overbench_tasks.prompts import normalised, prompt_id
from overbench_tasks.prompts.prompt_sets import bundled_prompts
from overbench_tasks.prompts.sources import BUNDLED_SETS
from overbench_tasks.text import excerpt


@dataclass(frozen=True, slots=True)
class RewriteCandidate:
    """One new prompt on its way. ``rejection`` is None as long as no filter has turned it away."""

    seed: ToxicSeed
    prompt: str
    rejection: Rejection | None = None
    votes: tuple[Vote, ...] = ()

    @property
    def prompt_id(self) -> str:
        return prompt_id(self.prompt)


class LocalFilters:
    """Form and novelty; the bundled sets and what has passed are known to the latter, of seeds their copies.

    A prompt that shares most of its seed's words and none of its harm is just what is wanted.
    """

    def __init__(self, settings: RewriteFilterSettings, seeds: Sequence[ToxicSeed]) -> None:
        self._form = settings.form
        self._novelty = Novelty(settings.novelty)
        self._seeds = {normalised(one.prompt): one.id for one in seeds}
        known = [(one["id"], one["prompt"]) for name in BUNDLED_SETS for one in bundled_prompts(name)]
        near = [] if settings.near_seed else [(one.id, one.prompt) for one in seeds]
        for key, prompt in known + near:
            self._novelty.add(key, prompt)

    def judged(self, seeds: Sequence[ToxicSeed], written: Sequence[Written]) -> list[RewriteCandidate]:
        """All candidates of some seeds' answers, in their order, those turned away with the reason."""
        found = []
        for seed, answer in zip(seeds, written, strict=True):
            for text in answer.candidates:
                problem = self._problem(text)
                if problem is None:
                    self._novelty.add(prompt_id(text), text)
                found.append(RewriteCandidate(seed, text, problem))
            found += [
                RewriteCandidate(seed, text, Rejection("reply", reason)) for text, reason in answer.rejected
            ]
        return found

    def _problem(self, text: str) -> Rejection | None:
        problem = form_problem(text, self._form) if self._form.enabled else None
        if problem is None and (seed := self._seeds.get(normalised(text))) is not None:
            problem = Rejection("novelty", "normalised", excerpt(seed))
        return problem or self._novelty.problem(text)
