"""What becomes of every candidate of a wave: through the gates in their order, or out with a reason.

The order is that of :data:`GATES`, the cheapest first; a rejection names the first gate that says no.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from generators.gates.form import form_problem
from generators.gates.novelty import Novelty
from generators.gates.presence import presence_problem
from generators.gates.rejection import Rejection
from generators.refresh.run import Run
from generators.seeds.seeds import SPLITS
from overbench_tasks.prompt_sets import BUNDLED_SETS, bundled_prompts
from overbench_tasks.prompts import prompt_id

if TYPE_CHECKING:
    from generators.adversary.adversary import Job, Written


GATES: Final = ("reply", "form", "novelty", "presence", "detector", "moderation")
"""``reply`` is the parsing of the adversary's reply: pieces that are no prompts at all."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One new prompt on its way. ``rejection`` is None as long as no gate has turned it away."""

    job: Job
    number: int
    prompt: str
    rejection: Rejection | None = None
    refusal_probability: float | None = None

    @property
    def prompt_id(self) -> str:
        return prompt_id(self.prompt)

    def out(self, gate: str, reason: str, detail: str = "") -> Candidate:
        return replace(self, rejection=Rejection(gate, reason, detail))


class Gates:
    """The gates of one round; what passed the local ones in earlier waves is known to the novelty gate."""

    def __init__(self, run: Run, round_number: int) -> None:
        self._run = run
        self._round = round_number
        self._novelty = Novelty(run.settings.gates.novelty)
        for name in BUNDLED_SETS:
            for bundled in bundled_prompts(name):
                self._novelty.add(bundled["id"], bundled["prompt"])
        for key, prompt in run.prompts(SPLITS):
            self._novelty.add(key, prompt)
        query = """
            SELECT prompt_id, prompt FROM candidates WHERE gate IN ('', 'detector', 'moderation')
            ORDER BY job_id, number"""
        for row in run.store.rows(query):
            self._novelty.add(row["prompt_id"], row["prompt"])

    def judge(self, jobs: Sequence[Job], written: Sequence[Written]) -> None:
        """Decide on all candidates of a wave and put the decisions on file, all at once."""
        candidates = list(self._candidates(jobs, written))
        candidates = self._local(candidates)
        candidates = self._detector(candidates)
        candidates = self._moderation(candidates)
        with self._run.store.transaction():
            self._keep(candidates, written)

    def _candidates(self, jobs: Sequence[Job], written: Sequence[Written]) -> Iterable[Candidate]:
        for job, answer in zip(jobs, written, strict=True):
            for number, text in enumerate(answer.candidates):
                yield Candidate(job, number, text)
            for number, (text, reason) in enumerate(answer.rejected, start=len(answer.candidates)):
                yield Candidate(job, number, text).out("reply", reason)

    def _local(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Form, novelty, presence. What passes is known to the novelty gate from here on."""
        gates, decided = self._run.settings.gates, []
        for candidate in candidates:
            problem = candidate.rejection
            if problem is None:
                if gates.form.enabled:
                    problem = form_problem(candidate.prompt, gates.form)
                problem = problem or self._novelty.problem(candidate.prompt)
                if problem is None and gates.presence.enabled:
                    form = self._run.settings.attribution.form
                    problem = presence_problem(candidate.prompt, candidate.job.feature, form)
                if problem is None:
                    self._novelty.add(candidate.prompt_id, candidate.prompt)
            decided.append(replace(candidate, rejection=problem))
        return decided

    def _detector(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The detector must call it refused; of the candidates of one job, the likeliest ``keep`` go on."""
        detector = self._run.detector(self._round)
        waiting = [candidate for candidate in candidates if candidate.rejection is None]
        probabilities = dict(
            zip(
                [candidate.prompt_id for candidate in waiting],
                detector.probabilities([candidate.prompt for candidate in waiting]),
                strict=True,
            )
        )
        by_job: dict[str, list[float]] = defaultdict(list)
        for candidate in waiting:
            by_job[candidate.job.id].append(probabilities[candidate.prompt_id])
        decided = []
        for candidate in candidates:
            if candidate.rejection is None:
                probability = probabilities[candidate.prompt_id]
                better = sum(other > probability for other in by_job[candidate.job.id])
                candidate = replace(candidate, refusal_probability=probability)
                if probability < detector.threshold:
                    candidate = candidate.out("detector", "predicted_accepted", f"{probability:.3f}")
                elif better >= self._run.settings.rounds.keep:
                    candidate = candidate.out("detector", "not_among_the_likeliest", f"{probability:.3f}")
            decided.append(candidate)
        return decided

    def _moderation(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        moderator = self._run.moderator
        waiting = [candidate for candidate in candidates if candidate.rejection is None]
        votes = moderator.votes([candidate.prompt for candidate in waiting])
        self._run.store.add(
            "votes",
            [
                {"prompt_id": candidate.prompt_id, "votes": json.dumps([asdict(vote) for vote in cast])}
                for candidate, cast in zip(waiting, votes, strict=True)
            ],
        )
        by_prompt = dict(zip([candidate.prompt_id for candidate in waiting], votes, strict=True))
        decided = []
        for candidate in candidates:
            if candidate.rejection is None and not moderator.passes(by_prompt[candidate.prompt_id]):
                said = Counter(vote.verdict for vote in by_prompt[candidate.prompt_id])
                reason = "harmful" if said["harmful"] else "unscored"
                candidate = candidate.out("moderation", reason, json.dumps(said, sort_keys=True))
            decided.append(candidate)
        return decided

    def _keep(self, candidates: Sequence[Candidate], written: Sequence[Written]) -> None:
        store, position = self._run.store, self._position()
        store.add("candidates", [_candidate_row(candidate) for candidate in candidates])
        rows: list[dict[str, Any]] = []
        for candidate in candidates:
            part = self._part(candidate)
            if part is not None:
                rows.append(self._prompt_row(candidate, part, position + len(rows)))
        store.add("prompts", rows)
        store.add(
            "written",
            [
                {
                    "job_id": answer.job_id,
                    "failure": answer.failure,
                    "prompt_tokens": answer.prompt_tokens,
                    "completion_tokens": answer.completion_tokens,
                }
                for answer in written
            ],
        )

    def _position(self) -> int:
        return int(self._run.store.value("SELECT COUNT(*) FROM prompts WHERE round = ?", [self._round]))

    def _part(self, candidate: Candidate) -> str | None:
        if candidate.rejection is None:
            return "accepted"
        if candidate.rejection.gate != "detector":
            return None
        explored = self._run.draw("explore", candidate.prompt_id).random() < self._run.settings.rounds.explore
        return "explored" if explored else None

    def _prompt_row(self, candidate: Candidate, part: str, position: int) -> dict[str, Any]:
        return {
            "id": candidate.prompt_id,
            "prompt": candidate.prompt,
            "part": part,
            "round": self._round,
            "position": position,
            "seed_id": candidate.job.seed_id,
            "feature": candidate.job.feature,
            "job_id": candidate.job.id,
        }


def _candidate_row(candidate: Candidate) -> dict[str, Any]:
    rejection = candidate.rejection or Rejection("", "", "")
    return {
        "job_id": candidate.job.id,
        "number": candidate.number,
        "prompt_id": candidate.prompt_id,
        "prompt": candidate.prompt,
        "gate": rejection.gate,
        "reason": rejection.reason,
        "detail": rejection.detail,
        "refusal_probability": candidate.refusal_probability,
    }


def counts(run: Run, round_number: int) -> dict[str, Any]:
    """Requests, candidates, and how many each gate turned away and why, in one round."""
    query = """
        SELECT gate, reason, COUNT(*) AS n FROM candidates JOIN jobs ON jobs.id = candidates.job_id
        WHERE round = ? GROUP BY gate, reason ORDER BY gate, reason"""
    rejected = {f"{row['gate']}: {row['reason']}": row["n"] for row in run.store.rows(query, [round_number])}
    accepted = rejected.pop(": ", 0)
    failed = "SELECT COUNT(*) FROM written JOIN jobs ON jobs.id = job_id WHERE round = ? AND failure != ''"
    return {
        "requests": run.store.value("SELECT COUNT(*) FROM jobs WHERE round = ?", [round_number]),
        "failed_requests": run.store.value(failed, [round_number]),
        "candidates": accepted + sum(rejected.values()),
        "accepted": accepted,
        "rejected": rejected,
    }
