"""The run directory: every stage of a refresh reads it, writes to it, and resumes from it.

All rows live in one SQLite file, ``run.sqlite``, and this is the only module that knows its tables. A row
is written once and never changed (but see :meth:`Store.forget`): a stage is finished for whatever has a
row, so that killing the process at any moment loses at most what had not come back yet, and nothing is asked
twice. The other files of a run can be made again from it and from ``settings.yaml``, the settings as used.

    RUN/settings.yaml            the settings as used, defaults written out
    RUN/run.sqlite               prompts, answers, attributions, jobs, candidates, votes
    RUN/adversary.sqlite         every paid answer of the adversary and the judges
    RUN/detector/round-N/        the detector of each round
    RUN/data/*.jsonl             what a run exports: see :mod:`generators.refresh.publish`
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from generators.adversary.adversary import Job, Written
from generators.attribution.attribution import Attribution, from_json
from generators.prompt_filters.moderation_classifier import Vote
from generators.prompt_filters.rejection import Rejection
from generators.refresh.run_file import RunFile
from overbench_tasks.prompts import prompt_id
from overbench_tasks.records import Label, Verdict

# The columns `part` and `wave` hold what the code calls split and batch: runs of earlier versions have them.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS prompts (
    id TEXT PRIMARY KEY, prompt TEXT NOT NULL, part TEXT NOT NULL, round INTEGER NOT NULL,
    position INTEGER NOT NULL, seed_id TEXT, feature TEXT, job_id TEXT);
CREATE TABLE IF NOT EXISTS answers (
    prompt_id TEXT, target TEXT, decoding TEXT, reply TEXT NOT NULL,
    PRIMARY KEY (prompt_id, target, decoding)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS labels (
    prompt_id TEXT, target TEXT, decoding TEXT, labeller TEXT,
    label TEXT NOT NULL, reason TEXT NOT NULL, label_by TEXT NOT NULL, blocked INTEGER NOT NULL,
    PRIMARY KEY (prompt_id, target, decoding, labeller)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attributions (
    prompt_id TEXT, round INTEGER, attribution TEXT NOT NULL, PRIMARY KEY (prompt_id, round)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, round INTEGER NOT NULL, wave INTEGER NOT NULL, position INTEGER NOT NULL,
    seed_id TEXT NOT NULL, feature TEXT NOT NULL, examples TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS written (
    job_id TEXT PRIMARY KEY, failure TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS candidates (
    job_id TEXT, number INTEGER, prompt_id TEXT NOT NULL, prompt TEXT NOT NULL, gate TEXT NOT NULL,
    reason TEXT NOT NULL, detail TEXT NOT NULL, refusal_probability REAL,
    PRIMARY KEY (job_id, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS votes (
    prompt_id TEXT PRIMARY KEY, votes TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS begun_calls (
    id INTEGER PRIMARY KEY, who TEXT NOT NULL, calls INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ended_calls (
    id INTEGER PRIMARY KEY, calls INTEGER NOT NULL, tokens INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS finished (
    round INTEGER, stage TEXT, summary TEXT NOT NULL, PRIMARY KEY (round, stage)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS candidates_by_prompt ON candidates (prompt_id);
"""
_UNWRITTEN = "id NOT IN (SELECT job_id FROM written)"

Summary = dict[str, Any]
"""What a finished stage came to: counts by name."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Who was asked how, and who labels: the key of answers and labels."""

    target: str
    decoding: str
    labeller: str


@dataclass(frozen=True, slots=True)
class RunPrompt:
    """One prompt of a run.

    Attributes:
        split: of a seed that of the split; of a new prompt ``accepted``, or ``explored``: for training only.
        round: in which it was made; 0 for seeds.
        position: its place among those of its round.
        seed_id, feature, job_id: of a new prompt, what it was made from.
    """

    id: str
    prompt: str
    split: str
    round: int
    position: int
    seed_id: str | None = None
    feature: str | None = None
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One new prompt on its way. ``rejection`` is None as long as no filter has turned it away."""

    job: Job
    number: int
    prompt: str
    rejection: Rejection | None = None
    refusal_probability: float | None = None

    @property
    def prompt_id(self) -> str:
        return prompt_id(self.prompt)


@dataclass(frozen=True, slots=True)
class Spent:
    """What was paid for so far, as :mod:`generators.refresh.paid_calls` has it.

    Attributes:
        requests: to the adversary, of which ``unjudged`` have no answer that the filters decided on yet.
        moderated: prompts that judges voted on.
        labelled: calls of the judge that labels.
        asked: calls of a target behind an API.
        tokens: of all of these, as far as the endpoints counted them; of a target's calls an estimate.
    """

    requests: int
    unjudged: int
    moderated: int
    labelled: int
    asked: int
    tokens: int


class Store(RunFile):
    """The verbs of a run directory; see :class:`RunFile` for how it is opened, and what is raised."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        super().__init__(folder, _SCHEMA, read_only=read_only)

    # Facts and stages.

    def fact(self, key: str) -> Any:
        """What :meth:`set_fact` keeps under ``key``, or None."""
        rows = self._rows("SELECT value FROM facts WHERE key = ?", [key])
        return json.loads(rows[0][0]) if rows else None

    def set_fact(self, key: str, value: Any) -> None:
        """Keep a JSON value under ``key``; the first one stays."""
        self._add("facts", [{"key": key, "value": json.dumps(value, sort_keys=True)}])

    def asked(self) -> bool:
        """Whether the target has answered anything; from then on the settings stay."""
        return self._count("answers") > 0

    def forget(self) -> None:
        """Drop settings and seeds of a run whose target has not answered: nothing of it was paid for."""
        assert not self.asked()
        with self.transaction():
            for table in ("facts", "prompts", "finished"):
                self._rows(f"DELETE FROM {table}")  # noqa: S608

    def finish(self, round_number: int, stage: str, summary: Summary) -> None:
        """Note that a stage of a round is complete."""
        self._add("finished", [{"round": round_number, "stage": stage, "summary": json.dumps(summary)}])

    def finished(self) -> dict[tuple[int, str], Summary]:
        """Round and stage to what :meth:`finish` noted."""
        rows = self._rows("SELECT round, stage, summary FROM finished ORDER BY round")
        return {(number, stage): json.loads(summary) for number, stage, summary in rows}

    # Prompts, answers, labels.

    def add_prompts(self, prompts: Iterable[RunPrompt]) -> None:
        """Keep new prompts."""
        rows = [asdict(prompt) for prompt in prompts]
        self._add("prompts", [{"part": row.pop("split"), **row} for row in rows])

    def prompts(self, *splits: str, first_round: int = 0, last_round: int | None = None) -> list[RunPrompt]:
        """The prompts of these splits (none named: of all) and rounds, by round and position."""
        chosen = f"part IN ({', '.join('?' * len(splits))}) AND" if splits else ""
        query = f"""
            SELECT id, prompt, part, round, position, seed_id, feature, job_id FROM prompts
            WHERE {chosen} round BETWEEN ? AND ? ORDER BY round, position, id"""  # noqa: S608
        rounds = [first_round, 1 << 30 if last_round is None else last_round]
        return [RunPrompt(*row) for row in self._rows(query, [*splits, *rounds])]

    def answered(self, asking: Asking) -> set[str]:
        """The ids of the prompts that the target has answered."""
        query = "SELECT prompt_id FROM answers WHERE target = :target AND decoding = :decoding"
        return {key for (key,) in self._rows(query, asdict(asking))}

    def add_answers(self, asking: Asking, replies: Mapping[str, str]) -> None:
        """Keep the target's replies, by prompt id."""
        key = {"target": asking.target, "decoding": asking.decoding}
        self._add("answers", [{"prompt_id": one, **key, "reply": reply} for one, reply in replies.items()])

    def unlabelled(self, asking: Asking) -> dict[str, tuple[str, str]]:
        """(prompt, reply) by prompt id, of all the target's replies without a label of this labeller."""
        query = """
            SELECT answers.prompt_id, prompts.prompt, answers.reply FROM answers
            JOIN prompts ON prompts.id = answers.prompt_id
            WHERE target = :target AND decoding = :decoding AND NOT EXISTS (
                SELECT 1 FROM labels WHERE labels.prompt_id = answers.prompt_id
                AND labels.target = answers.target AND labels.decoding = answers.decoding
                AND labels.labeller = :labeller)
            ORDER BY answers.prompt_id"""
        return {key: (prompt, reply) for key, prompt, reply in self._rows(query, asdict(asking))}

    def add_labels(self, asking: Asking, verdicts: Mapping[str, Verdict]) -> None:
        """Keep the labeller's verdicts, by prompt id."""
        rows = []
        for key, said in verdicts.items():
            told = {"label": said.label, "reason": said.reason, "label_by": said.by, "blocked": said.blocked}
            rows.append({"prompt_id": key, **asdict(asking), **told})
        self._add("labels", rows)

    def labels(self, asking: Asking) -> dict[str, Label]:
        """Every label of the target's replies, by prompt id."""
        query = """
            SELECT prompt_id, label FROM labels
            WHERE target = :target AND decoding = :decoding AND labeller = :labeller"""
        return dict(self._rows(query, asdict(asking)))

    def labellers(self) -> tuple[str, ...]:
        """Whoever labelled replies of this run, in alphabetical order."""
        return tuple(row[0] for row in self._rows("SELECT DISTINCT labeller FROM labels ORDER BY labeller"))

    def answered_otherwise(self) -> set[str]:
        """The ids of the prompts whose replies have labels, and none by which the target refuses."""
        query = "SELECT prompt_id FROM labels GROUP BY prompt_id HAVING SUM(label = 'refused') = 0"
        return {key for (key,) in self._rows(query)}

    # Attributions.

    def add_attributions(self, round_number: int, attributions: Iterable[Attribution]) -> None:
        """Keep attributions by the detector of a round."""
        made = [(one.prompt_id, json.dumps(asdict(one))) for one in attributions]
        rows = [{"prompt_id": key, "round": round_number, "attribution": text} for key, text in made]
        self._add("attributions", rows)

    def attributions(self, round_number: int) -> dict[str, Attribution]:
        """What the detector of a round holds against each prompt, by prompt id."""
        query = "SELECT prompt_id, attribution FROM attributions WHERE round = ?"
        return {key: from_json(json.loads(text)) for key, text in self._rows(query, [round_number])}

    def latest_attributions(self) -> list[tuple[str, Attribution]]:
        """Every attributed prompt with its latest attribution, by prompt id."""
        query = """
            SELECT prompt, attribution, MAX(attributions.round) FROM attributions
            JOIN prompts ON prompts.id = prompt_id GROUP BY prompt_id ORDER BY prompt_id"""
        return [(prompt, from_json(json.loads(text))) for prompt, text, _ in self._rows(query)]

    # Batches of requests to the adversary.

    def add_batch(self, round_number: int, number: int, jobs: Iterable[Job]) -> None:
        """Keep what the adversary is to be asked, before it is."""
        place = {"round": round_number, "wave": number}
        rows = []
        for position, job in enumerate(jobs):
            asked = {"seed_id": job.seed_id, "feature": job.feature, "examples": json.dumps(job.examples)}
            rows.append({"id": job.id, **place, "position": position, **asked})
        self._add("jobs", rows)

    def batches(self, round_number: int) -> dict[int, list[Job]]:
        """The batches of a round whose answers have not all been decided on, by number."""
        query = f"""
            SELECT wave, examples, jobs.id, jobs.seed_id, prompt, jobs.feature, jobs.round
            FROM jobs JOIN prompts ON prompts.id = jobs.seed_id
            WHERE jobs.round = :round AND wave IN (
                SELECT wave FROM jobs WHERE round = :round AND {_UNWRITTEN})
            ORDER BY wave, jobs.position"""  # noqa: S608
        found: dict[int, list[Job]] = {}
        for number, examples, *job in self._rows(query, {"round": round_number}):
            found.setdefault(number, []).append(Job(*[*job, tuple(json.loads(examples))]))
        return found

    def next_batch(self, round_number: int) -> int:
        """The number of the first batch of a round that is not on file."""
        query = "SELECT COALESCE(MAX(wave), -1) + 1 FROM jobs WHERE round = ?"
        return int(self._rows(query, [round_number])[0][0])

    def requests(self, round_number: int) -> int:
        """How many requests to the adversary a round has."""
        return self._count("jobs WHERE round = ?", [round_number])

    def drawn(self) -> set[tuple[str, str]]:
        """Every (seed id, feature) that was drawn, in any round."""
        return set(map(tuple, self._rows("SELECT seed_id, feature FROM jobs")))

    def uses(self) -> Counter[str]:
        """Uses of each feature: accepted prompts, and requests whose answers are still to be decided on."""
        query = f"""
            SELECT feature FROM prompts WHERE part = 'accepted' UNION ALL
            SELECT feature FROM jobs WHERE {_UNWRITTEN}"""  # noqa: S608
        return Counter(feature for (feature,) in self._rows(query))

    # What became of the answers.

    def add_votes(self, votes: Mapping[str, Sequence[Vote]]) -> None:
        """Keep what the judges said, by prompt id."""
        rows = [{"prompt_id": key, "votes": json.dumps(list(map(asdict, votes[key])))} for key in votes]
        self._add("votes", rows)

    def decide(
        self, candidates: Iterable[Candidate], kept: Iterable[RunPrompt], written: Iterable[Written]
    ) -> None:
        """Keep the decisions on all candidates of a batch, the prompts that go on, and what was written."""
        rows = [
            {
                "job_id": one.job.id,
                "number": one.number,
                "prompt_id": one.prompt_id,
                "prompt": one.prompt,
                **(one.rejection or Rejection("", "")).row(),
                "refusal_probability": one.refusal_probability,
            }
            for one in candidates
        ]
        counted = ("job_id", "failure", "prompt_tokens", "completion_tokens")
        with self.transaction():
            self._add("candidates", rows)
            self.add_prompts(kept)
            self._add("written", [{name: getattr(one, name) for name in counted} for one in written])

    def known(self) -> list[tuple[str, str]]:
        """(id, prompt) of every candidate that passed the filters without a model."""
        query = """
            SELECT prompt_id, prompt FROM candidates WHERE gate IN ('', 'detector', 'moderation')
            ORDER BY job_id, number"""
        return list(map(tuple, self._rows(query)))

    def decisions(self, *rounds: int) -> dict[tuple[str, str], int]:
        """How many candidates each filter turned away, by its name and reason; the passed under ("", "").

        Of these rounds, or with none named of all, the most frequent first.
        """
        chosen = f"WHERE round IN ({', '.join('?' * len(rounds))})" if rounds else ""
        query = f"""
            SELECT gate, reason, COUNT(*) AS n FROM candidates JOIN jobs ON jobs.id = candidates.job_id
            {chosen} GROUP BY gate, reason ORDER BY n DESC, gate, reason"""  # noqa: S608
        return {(gate, reason): n for gate, reason, n in self._rows(query, rounds)}

    def failed_requests(self, round_number: int) -> int:
        """Requests of a round that the adversary left without an answer for good."""
        of = "written JOIN jobs ON jobs.id = job_id WHERE round = ? AND failure != ''"
        return self._count(of, [round_number])

    def answered_requests(self, round_number: int) -> int:
        """Requests of a round that the adversary answered."""
        of = "written JOIN jobs ON jobs.id = job_id WHERE round = ? AND failure = ''"
        return self._count(of, [round_number])

    def rejections(self) -> list[Mapping[str, Any]]:
        """Every candidate that a filter turned away, in the order of their requests.

        ``votes`` are parsed, and empty where none were cast.
        """
        query = """
            SELECT prompt_id, candidates.prompt, gate, reason, detail, round, seed_id, feature, job_id, votes
            FROM candidates JOIN jobs ON jobs.id = candidates.job_id LEFT JOIN votes USING (prompt_id)
            WHERE gate != '' ORDER BY round, wave, position, number"""
        return [{**row, "votes": json.loads(row["votes"] or "[]")} for row in map(dict, self._rows(query))]

    def accepted(self, asking: Asking) -> list[Mapping[str, Any]]:
        """Every accepted prompt that was answered and labelled: its columns, and those of what led to it.

        ``label_reason``, ``label_by``, ``reply``, ``refusal_probability`` and ``votes``, which are parsed.
        """
        query = """
            SELECT prompts.*, candidates.refusal_probability, votes.votes, answers.reply, labels.label,
                   labels.reason AS label_reason, labels.label_by
            FROM prompts
            JOIN candidates ON candidates.prompt_id = prompts.id AND candidates.gate = ''
            JOIN answers ON answers.prompt_id = prompts.id AND answers.target = :target
                 AND answers.decoding = :decoding
            JOIN labels ON labels.prompt_id = prompts.id AND labels.target = :target
                 AND labels.decoding = :decoding AND labels.labeller = :labeller
            LEFT JOIN votes ON votes.prompt_id = prompts.id
            WHERE prompts.part = 'accepted' ORDER BY prompts.round, prompts.position"""
        rows = [dict(row) for row in self._rows(query, asdict(asking))]
        return [{**row, "votes": json.loads(row["votes"] or "[]")} for row in rows]

    def begin_calls(self, who: str, calls: int) -> int:
        """Note so many paid calls of ``labelling`` or ``target`` before they are made; the note's number.

        They count until :meth:`end_calls` says how many there were: a process that is killed in between has
        paid for some of them.
        """
        number = int(self._rows("SELECT COALESCE(MAX(id), 0) + 1 FROM begun_calls")[0][0])
        self._add("begun_calls", [{"id": number, "who": who, "calls": calls}])
        return number

    def end_calls(self, number: int, calls: int, tokens: int) -> None:
        """Note how many of the calls of that note were made, and their tokens."""
        self._add("ended_calls", [{"id": number, "calls": calls, "tokens": tokens}])

    def spent(self) -> Spent:
        """What was paid for so far."""
        query = """
            SELECT (SELECT COALESCE(SUM(prompt_tokens + completion_tokens), 0) FROM written)
                 + (SELECT COALESCE(SUM(json_extract(value, '$.tokens')), 0)
                    FROM votes, json_each(votes.votes))
                 + (SELECT COALESCE(SUM(tokens), 0) FROM ended_calls)"""
        made = """
            SELECT who, SUM(COALESCE(ended_calls.calls, begun_calls.calls))
            FROM begun_calls LEFT JOIN ended_calls USING (id) GROUP BY who"""
        calls = {who: int(number) for who, number in self._rows(made)}
        return Spent(
            requests=self._count("jobs"),
            unjudged=self._count(f"jobs WHERE {_UNWRITTEN}"),
            moderated=self._count("votes"),
            labelled=calls.get("labelling", 0),
            asked=calls.get("target", 0),
            tokens=int(self._rows(query)[0][0]),
        )

    def to_verify(self, round_number: int, asking: Asking) -> int:
        """How many accepted prompts of a round have no label of the target's reply yet."""
        return len(
            {one.id for one in self.prompts("accepted", first_round=round_number, last_round=round_number)}
            - self.labels(asking).keys()
        )

    def progress(self) -> dict[str, int]:
        """How far a run is, in words."""
        return {
            "prompts answered by the target": self._count("answers"),
            "requests answered by the adversary": self._count("written"),
            "candidates": self._count("candidates"),
            "accepted": self._count("prompts WHERE part = 'accepted'"),
        }
