"""Generation: Algorithm 1 of Pu et al. 2025, in batches, so that it can be spread, stopped and resumed.

The paper draws one (seed, feature) pair after the other. A batch draws many at once, and while the
adversary writes for one batch, the batch before it passes the filters. So a batch is drawn from the uses
and the seeds as they were two batches earlier, whatever arrives when, and a run that was killed draws
the same batches when it goes on.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from tqdm import tqdm

from generators.adversary.adversary import Job, Written
from generators.attribution.attribution import Attribution, content_words, features
from generators.refresh.filtering import CandidateFilters
from generators.refresh.run import Run
from generators.refresh.stages import attribute_prompts, round_seeds, verified
from generators.refresh.store import RunPrompt, Summary
from overbench_tasks.errors import OverbenchError
from overbench_tasks.text import number_of

BUDGET_ENDED: Final = "budget used up"
"""The ``ended`` of a summary whose stage goes on once the budget is raised."""


def generate(run: Run, round_number: int) -> Summary:
    """Draw batches until the round's requests, its seeds and features, or the budget are used up."""
    ended = _draw_and_judge(run, round_number)
    decisions = run.store.decisions(round_number)
    accepted = decisions.pop(("", ""), 0)
    return {
        "ended": ended,
        "requests": run.store.requests(round_number),
        "failed_requests": run.store.failed_requests(round_number),
        "candidates": accepted + sum(decisions.values()),
        "accepted": accepted,
        "rejected": {f"{gate}: {reason}": n for (gate, reason), n in sorted(decisions.items())},
    }


def _draw_and_judge(run: Run, round_number: int) -> str:
    """Returns why no further batch was drawn."""
    filters, batches = CandidateFilters(run, round_number), Batches(run, round_number)
    stop = threading.Event()
    in_flight: tuple[list[Job], Future[list[Written]]] | None = None
    bar = tqdm(desc=f"generate, round {round_number}", total=run.settings.rounds.jobs, disable=None)
    with bar, ThreadPoolExecutor(1, "adversary") as background:
        try:
            while True:
                jobs = batches.next()
                asked = (jobs, background.submit(_write, run, jobs, stop)) if jobs else None
                if in_flight is not None:
                    jobs_before, written = in_flight
                    answers = written.result()
                    _check_answered(run, round_number, answers)
                    filters.judge(jobs_before, answers)
                    bar.update(len(jobs_before))
                elif asked is None:
                    return batches.ended
                in_flight = asked
        finally:
            stop.set()


def _write(run: Run, jobs: Sequence[Job], stop: threading.Event) -> list[Written]:
    """Ask for one batch. An outage is no answer: the batch stays unasked for until the next start."""
    written = run.adversary.write(jobs, should_stop=stop.is_set)
    unasked = sum(answer.failure.startswith("not asked") for answer in written)
    if run.adversary.stopped_because or unasked:
        raise OverbenchError(
            f"The adversary stopped answering: {run.adversary.stopped_because or 'interrupted'}. "
            "What it wrote is kept: start the same command again to go on."
        )
    return written


def _check_answered(run: Run, round_number: int, written: Sequence[Written]) -> None:
    """Raise where the writer has answered nothing in a round yet: such a batch is asked again."""
    failures = [answer.failure for answer in written if answer.failure]
    if failures and len(failures) == len(written) and not run.store.answered_requests(round_number):
        raise OverbenchError(
            f"The adversary answered none of {number_of(len(failures), 'request')}, the last failed with: "
            f"{failures[-1]}. Mend that, then start the same command again: it asks them again."
        )


class Batches:
    """Draws the batches of one round, those on file first.

    Attributes:
        ended: after :meth:`next` gave none, why.
    """

    def __init__(self, run: Run, round_number: int) -> None:
        self.ended = ""
        self._run = run
        self._round = round_number
        self._on_file = run.store.batches(round_number)
        self._number = run.store.next_batch(round_number)
        self._starting = round_seeds(run, round_number)
        self._verified = [one.prompt for one in verified(run, before=round_number)]

    def next(self) -> list[Job]:
        """The jobs of the next batch; none where nothing can be drawn now."""
        if self._on_file:
            return self._on_file.pop(min(self._on_file))
        settings, store = self._run.settings, self._run.store
        left = None if settings.rounds.jobs is None else settings.rounds.jobs - store.requests(self._round)
        if left is not None and left <= 0:
            self.ended = "all requests made"
            return []
        if self._over_budget():
            self.ended = BUDGET_ENDED
            return []
        # Batch files come back after hours: then a round is one batch, drawn from the round's seeds alone.
        size = left if settings.adversary.batch_folder else settings.rounds.batch
        jobs = list(self._draw(size if left is None or size is None else min(left, size)))
        store.add_batch(self._round, self._number, jobs)
        self._number += bool(jobs)
        self.ended = "" if jobs else "no seed or feature left"
        return jobs

    def _over_budget(self) -> bool:
        """Whether the next batch could go beyond the budget's calls, or begins with its tokens spent.

        The calls that verify what has passed and what still may are set aside.
        """
        rounds, spent, paid = self._run.settings.rounds, self._run.store.spent(), self._run.paid
        left = self._run.calls_left()
        through = rounds.keep * (paid.votes + paid.verification)  # of one request
        needed = spent.unjudged * through + rounds.batch * (1 + through)
        if paid.verification:
            waiting = self._run.store.to_verify(self._round, self._run.asking)
            needed += waiting * paid.verification
        return needed > left.calls or left.tokens <= 0

    def _draw(self, size: int | None) -> Iterator[Job]:
        """At most ``size`` jobs: the best features of all seeds first, then the second best, ..."""
        run, store = self._run, self._run.store
        grown = store.prompts("accepted", first_round=self._round, last_round=self._round)
        sources = self._starting + (grown if run.settings.rounds.grow else [])
        attribute_prompts(run, self._round, sources)
        drawn, uses, examples, count = store.drawn(), store.uses(), self._examples(), 0
        for seed, feature in self._pairs(sources):
            if count == size:
                return
            if (seed.id, feature) in drawn or uses[feature] >= run.settings.rounds.feature_cap:
                continue
            uses[feature] += 1  # what is in flight counts, so that a batch cannot overshoot
            count += 1
            key = json.dumps([run.settings.seed, self._round, seed.id, feature])
            name = "job-" + hashlib.sha256(key.encode()).hexdigest()[:12]
            yield Job(name, seed.id, seed.prompt, feature, self._round, examples)

    def _pairs(self, sources: Sequence[RunPrompt]) -> Iterator[tuple[RunPrompt, str]]:
        attributions = self._run.store.attributions(self._round)
        by_seed = [(seed, self._features(attributions[seed.id])) for seed in sources]
        for rank in range(self._run.settings.attribution.top_k):
            yield from ((seed, words[rank]) for seed, words in by_seed if rank < len(words))

    def _features(self, attribution: Attribution) -> list[str]:
        run, settings = self._run, self._run.settings.attribution
        if run.settings.rounds.words == "attributed":
            return features(attribution, settings)
        words = content_words(attribution, settings)
        return run.draw("words", attribution.prompt_id).sample(words, min(settings.top_k, len(words)))

    def _examples(self) -> tuple[str, ...]:
        """Verified prompts of earlier rounds; one draw for a whole batch, so that requests share a prefix."""
        shown = min(self._run.settings.rounds.examples, len(self._verified))
        return tuple(self._run.draw("examples", self._round, self._number).sample(self._verified, shown))
