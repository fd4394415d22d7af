"""What becomes of every candidate of a batch: through the filters in their order, or out with a reason.

The order is that of :data:`FILTERS`, the cheapest first; a rejection names the first filter that says no.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from generators.adversary.adversary import Job, Written
from generators.prompt_filters.form import form_problem
from generators.prompt_filters.novelty import Novelty
from generators.prompt_filters.presence import presence_problem
from generators.prompt_filters.rejection import Rejection
from generators.refresh.run import Run
from generators.refresh.store import Candidate, RunPrompt
from generators.seeds.seeds import SPLITS
from overbench_tasks.prompts.prompt_sets import bundled_prompts
from overbench_tasks.prompts.sources import BUNDLED_SETS

FILTERS: Final = ("reply", "form", "novelty", "presence", "detector", "moderation")
"""``reply`` is the parsing of the adversary's reply: pieces that are no prompts at all."""


class CandidateFilters:
    """The filters of one round; the novelty filter knows what passed the local ones in earlier batches."""

    def __init__(self, run: Run, round_number: int) -> None:
        self._run = run
        self._round = round_number
        self._novelty = Novelty(run.settings.filters.novelty)
        bundled = [(one["id"], one["prompt"]) for name in BUNDLED_SETS for one in bundled_prompts(name)]
        seeds = [(one.id, one.prompt) for one in run.store.prompts(*SPLITS)]
        for key, prompt in bundled + seeds + run.store.known():
            self._novelty.add(key, prompt)

    def judge(self, jobs: Sequence[Job], written: Sequence[Written]) -> None:
        """Decide on all candidates of a batch and put the decisions on file, all at once."""
        candidates = list(_candidates(jobs, written))
        for decide in (self._local, self._detector, self._moderation):
            decided = decide([candidate for candidate in candidates if candidate.rejection is None])
            candidates = [
                next(decided) if candidate.rejection is None else candidate for candidate in candidates
            ]
        self._run.store.decide(candidates, self._kept(candidates), written)

    def _local(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """Form, novelty, presence. What passes is known to the novelty filter from here on."""
        settings, filters = self._run.settings, self._run.settings.filters
        for one in candidates:
            problem = form_problem(one.prompt, filters.form) if filters.form.enabled else None
            problem = problem or self._novelty.problem(one.prompt)
            if problem is None and filters.presence.enabled:
                problem = presence_problem(one.prompt, one.job.feature, settings.attribution.form)
            if problem is None:
                self._novelty.add(one.prompt_id, one.prompt)
            yield replace(one, rejection=problem)

    def _detector(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """The detector must call it refused; of the candidates of one job, the likeliest ``keep`` go on.

        One whose threshold does not hold only ranks: see :meth:`Run.decision`.
        """
        detector = self._run.detector(self._round)
        threshold = detector.threshold if self._run.decision(self._round).gates else 0.0
        probabilities = detector.probabilities([one.prompt for one in candidates])
        by_job: dict[str, list[float]] = defaultdict(list)
        for one, probability in zip(candidates, probabilities, strict=True):
            by_job[one.job.id].append(probability)
        for one, probability in zip(candidates, probabilities, strict=True):
            likelier = sum(other > probability for other in by_job[one.job.id])
            reason = ""
            if probability < threshold:
                reason = "predicted_accepted"
            elif likelier >= self._run.settings.rounds.keep:
                reason = "not_among_the_likeliest"
            problem = Rejection("detector", reason, f"{probability:.3f}") if reason else None
            yield replace(one, rejection=problem, refusal_probability=probability)

    def _moderation(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        moderator = self._run.moderator
        votes = moderator.votes([one.prompt for one in candidates])
        self._run.store.add_votes({one.prompt_id: cast for one, cast in zip(candidates, votes, strict=True)})
        for one, cast in zip(candidates, votes, strict=True):
            said = Counter(vote.verdict for vote in cast)
            reason = "harmful" if said["harmful"] else "unscored"
            problem = Rejection("moderation", reason, json.dumps(said, sort_keys=True))
            yield replace(one, rejection=None if moderator.passes(cast) else problem)

    def _kept(self, candidates: Sequence[Candidate]) -> list[RunPrompt]:
        position = len(self._run.store.prompts(first_round=self._round, last_round=self._round))
        kept = [(one, one.job, split) for one in candidates if (split := self._split(one)) is not None]
        return [
            RunPrompt(one.prompt_id, one.prompt, split, self._round, place, job.seed_id, job.feature, job.id)
            for place, (one, job, split) in enumerate(kept, start=position)
        ]

    def _split(self, candidate: Candidate) -> str | None:
        """Where a candidate goes on: with the accepted, or for training only; None: nowhere."""
        if candidate.rejection is None:
            return "accepted"
        draw = self._run.draw("explore", candidate.prompt_id).random()
        explored = candidate.rejection.filter == "detector" and draw < self._run.settings.rounds.explore
        return "explored" if explored else None


def _candidates(jobs: Sequence[Job], written: Sequence[Written]) -> Iterator[Candidate]:
    for job, answer in zip(jobs, written, strict=True):
        for number, text in enumerate(answer.candidates):
            yield Candidate(job, number, text)
        for number, (text, reason) in enumerate(answer.rejected, start=len(answer.candidates)):
            yield Candidate(job, number, text, Rejection("reply", reason))
