"""Generation: Algorithm 1 of Pu et al. 2025, in waves, so that it can be spread, stopped and resumed.

The paper draws one (seed, feature) pair after the other. A wave draws many at once, and while the
adversary writes for one wave, the wave before it passes the gates. So a wave is drawn from the pool
and the seeds as they were two waves earlier, whatever arrives when, and a run that was killed draws
the same waves when it goes on.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from generators.refresh.gating import Gates, counts
from generators.refresh.run import Run, RunError
from generators.refresh.stages import Summary, attribute_prompts, round_seeds

if TYPE_CHECKING:
    from generators.adversary.adversary import Job, Written


def generate(run: Run, round_number: int) -> Summary:
    """Draw waves until the round's requests, its seeds and features, or the budget are used up."""
    if (done := run.store.summary(round_number, "generate")) is not None:
        return done
    ended = _draw_waves(run, round_number)
    summary = {"ended": ended, **counts(run, round_number)}
    run.store.finish(round_number, "generate", summary)
    return summary


def _draw_waves(run: Run, round_number: int) -> str:
    """Returns why no further wave was drawn."""
    gates, waves = Gates(run, round_number), Waves(run, round_number)
    progress = run.reporter.bar(f"generate, round {round_number}", run.settings.rounds.jobs)
    stop = threading.Event()
    in_flight: tuple[list[Job], Future[list[Written]]] | None = None
    with ThreadPoolExecutor(1, "adversary") as background:
        try:
            while True:
                jobs = waves.next()
                asked = (jobs, background.submit(_write, run, jobs, stop)) if jobs else None
                if in_flight is not None:
                    jobs_before, written = in_flight
                    gates.judge(jobs_before, written.result())
                    progress(len(jobs_before))
                elif asked is None:
                    return waves.ended
                in_flight = asked
        finally:
            stop.set()


def _write(run: Run, jobs: Sequence[Job], stop: threading.Event) -> list[Written]:
    """Ask for one wave. An outage is no answer: the wave stays unasked for, and the next start asks again."""
    written = run.adversary.write(jobs, should_stop=stop.is_set)
    unasked = sum(answer.failure.startswith("not asked") for answer in written)
    if run.adversary.stopped_because or unasked:
        raise RunError(
            f"The adversary stopped answering: {run.adversary.stopped_because or 'interrupted'}. "
            "What it wrote is kept: start the same command again to go on."
        )
    return written


class Waves:
    """Draws the waves of one round, those on file first."""

    def __init__(self, run: Run, round_number: int) -> None:
        self._run = run
        self._round = round_number
        query = """
            SELECT DISTINCT wave FROM jobs WHERE round = ? AND id NOT IN (SELECT job_id FROM written)
            ORDER BY wave"""
        self._on_file = [row["wave"] for row in run.store.rows(query, [round_number])]
        self._next = run.store.value(
            "SELECT COALESCE(MAX(wave), -1) + 1 FROM jobs WHERE round = ?", [round_number]
        )
        self._starting = round_seeds(run, round_number)
        self.ended = ""

    def next(self) -> list[Job]:
        """The jobs of the next wave; none where nothing can be drawn now. :attr:`ended` then says why."""
        if self._on_file:
            return self._stored(self._on_file.pop(0))
        left = self._run.settings.rounds.jobs - self._run.store.value(
            "SELECT COUNT(*) FROM jobs WHERE round = ?", [self._round]
        )
        if left <= 0:
            self.ended = "all requests made"
            return []
        if self._run.over_budget():
            self.ended = "budget used up"
            return []
        self._draw(min(left, self._size()))
        jobs = self._stored(self._next)
        self._next += bool(jobs)
        self.ended = "" if jobs else "no seed or feature left"
        return jobs

    def _size(self) -> int:
        """Batch files come back after hours: then a round is one wave, drawn from the round's seeds alone."""
        settings = self._run.settings
        return settings.rounds.jobs if settings.adversary.batch_folder else settings.rounds.wave

    def _stored(self, wave: int) -> list[Job]:
        from generators.adversary.adversary import Job

        query = """
            SELECT jobs.*, prompts.prompt FROM jobs JOIN prompts ON prompts.id = jobs.seed_id
            WHERE jobs.round = ? AND wave = ? ORDER BY jobs.position"""
        return [
            Job(
                id=row["id"],
                seed_id=row["seed_id"],
                seed=row["prompt"],
                feature=row["feature"],
                round=self._round,
                examples=tuple(json.loads(row["examples"])),
            )
            for row in self._run.store.rows(query, [self._round, wave])
        ]

    def _draw(self, size: int) -> None:
        """Put the next wave on file: the best features of all seeds first, then the second best, ..."""
        run = self._run
        sources = self._starting + (self._accepted() if run.settings.rounds.grow else [])
        attribute_prompts(run, self._round, sources)
        used = {
            (row["seed_id"], row["feature"]) for row in run.store.rows("SELECT seed_id, feature FROM jobs")
        }
        pool = run.pool()
        examples = json.dumps(self._examples())
        rows: list[dict[str, Any]] = []
        for seed_id, feature in self._pairs(sources):
            if len(rows) == size:
                break
            if (seed_id, feature) in used or not pool.drawable([feature]):
                continue
            pool.add(feature)  # in this copy: what is in flight counts, so that a wave cannot overshoot
            rows.append(
                {
                    "id": self._job_id(seed_id, feature),
                    "round": self._round,
                    "wave": self._next,
                    "position": len(rows),
                    "seed_id": seed_id,
                    "feature": feature,
                    "examples": examples,
                }
            )
        run.store.add("jobs", rows)

    def _pairs(self, sources: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        by_seed = [(seed_id, self._features(seed_id)) for seed_id, _ in sources]
        for rank in range(self._run.settings.attribution.top_k):
            for seed_id, features in by_seed:
                if rank < len(features):
                    yield seed_id, features[rank]

    def _features(self, seed_id: str) -> list[str]:
        from generators.attribution.attribution import content_words, features, from_json

        run = self._run
        query = "SELECT attribution FROM attributions WHERE prompt_id = ? AND round = ?"
        attribution = from_json(json.loads(run.store.value(query, [seed_id, self._round])))
        if run.settings.rounds.words == "attributed":
            return features(attribution, run.settings.attribution)
        words = content_words(attribution, run.settings.attribution)
        return run.draw("words", seed_id).sample(words, min(run.settings.attribution.top_k, len(words)))

    def _accepted(self) -> list[tuple[str, str]]:
        query = "SELECT id, prompt FROM prompts WHERE part = 'accepted' AND round = ? ORDER BY position, id"
        return [(row["id"], row["prompt"]) for row in self._run.store.rows(query, [self._round])]

    def _examples(self) -> list[str]:
        """Verified prompts of earlier rounds; one draw for a whole wave, so that requests share a prefix."""
        verified = [prompt for _, prompt in self._run.verified(before=self._round)]
        shown = min(self._run.settings.rounds.examples, len(verified))
        return self._run.draw("examples", self._round, self._next).sample(verified, shown)

    def _job_id(self, seed_id: str, feature: str) -> str:
        key = json.dumps([self._run.settings.seed, self._round, seed_id, feature])
        return "job-" + hashlib.sha256(key.encode()).hexdigest()[:12]
