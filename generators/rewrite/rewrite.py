"""Toxic seeds in, harmless prompts that sound like them out: the pipeline of OR-Bench.

Cui et al. 2024 (OR-Bench, arXiv 2405.20947, section 3): a language model rewrites each harmful seed into
several prompts, an ensemble of judges votes which of them are harmless, duplicates go, and the hard subset
is what several targets reject. Departures: seeds are given, not generated; the filters of a refresh for form
and novelty stand before the vote.

Everything is made anew from the seeds, the settings and the answers on file, which are keyed by the request:
so an interrupted run goes on, nothing is paid for twice, and settings may change between two calls.

    RUN/settings.yaml                settings as last used
    RUN/answers.sqlite               every paid answer of writer and judges
    RUN/replies.jsonl                what the targets said
    RUN/data/rewritten.jsonl         prompts that passed all filters, with their provenance
    RUN/data/rewritten_hard.jsonl    those that min_rejections targets refuse
    RUN/data/rejections.jsonl        everything else, with filter and reason
    RUN/data/summary.json            counts, and who wrote, voted and labelled
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import yaml
from filelock import FileLock, Timeout
from tqdm import tqdm

from generators.adversary.adversary import Adversary, Job, Written
from generators.categories.keywords import categorise
from generators.prompt_filters.moderation import UNMODERATED, Moderator
from generators.prompt_filters.moderation_classifier import Vote
from generators.prompt_filters.rejection import Rejection
from generators.refresh.publish import in_order_of_ids, write_lines
from generators.rewrite.local_filters import LocalFilters, RewriteCandidate
from generators.rewrite.rewrite_settings import RewriteSettings
from generators.rewrite.toxic_seeds import ToxicSeed, read_toxic_seeds
from generators.rewrite.verification import refusals, verdicts
from generators.targets.reply_file import ReplyFile
from generators.targets.target import Asked, Target
from overbench_tasks import __version__
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.labeller import Labeller
from overbench_tasks.labellers.registry import for_batches
from overbench_tasks.prompts import prompt_id
from overbench_tasks.tables import whole_file
from overbench_tasks.text import number_of

REWRITTEN_NAME: Final = "rewritten.jsonl"
HARD_NAME: Final = "rewritten_hard.jsonl"


class RewriteRun:
    """A run directory at work; use it in a ``with`` block. Its models are made when they are first needed.

    Args:
        settings: of this call.
        folder: made where it is missing.
        say: told a line after each stage.

    Raises:
        OverbenchError: another process works on the folder, or it can't be written.
    """

    def __init__(self, settings: RewriteSettings, folder: Path, say: Callable[[str], object] = print) -> None:
        self.settings, self.folder, self.say = settings, folder, say
        self._last_failure = ""
        self._lock = FileLock(folder / ".lock")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise OverbenchError(f"Another process works on {folder}. Wait for it or stop it.") from error
        except OSError as error:
            raise OverbenchError(
                f"The run directory {folder} cannot be written: {error}. Make room or mend the rights."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @cached_property
    def writer(self) -> Adversary:
        return Adversary(self.settings.writer, self.folder / "answers.sqlite")

    @cached_property
    def moderator(self) -> Moderator:
        return Moderator(self.settings.moderation, self.folder / "answers.sqlite")

    @cached_property
    def labeller(self) -> Labeller:
        return for_batches(self.settings.labeller.by, self.settings.labeller.by_args)

    @cached_property
    def targets(self) -> Sequence[Asked]:
        return [Target(one) for one in self.settings.targets]

    def check(self) -> None:
        """Find out for no money what would fail: labeller, writer, judges."""
        _ = self.labeller
        self.writer.check()
        self.moderator.check()

    def rewrite(self) -> dict[str, Any]:
        """Rewrite, filter, vote, verify, and write the files of ``data``.

        Returns:
            what ``summary.json`` holds.

        Raises:
            OverbenchError: of any stage; what was paid for until then is kept.
            BatchPending: with ``batch:``, as long as replies are missing.
        """
        seeds, dropped = read_toxic_seeds(self.settings.seeds)
        self._write_settings()  # now that they were found usable
        counts = Counter(seeds=len(seeds), requests_without_answer=0)
        candidates = list(self._candidates(seeds, counts))
        if seeds and counts["requests_without_answer"] == len(seeds):
            raise OverbenchError(
                f"The writer {self.settings.writer.model} answered none of "
                f"{number_of(len(seeds), 'request')}, the last failed with: {self._last_failure}. Nothing "
                "was written. Mend that, then start the same command again: it asks them again."
            )
        passed = [one for one in candidates if one.rejection is None]
        rejected = Counter(f"{one.filter}: {one.reason}" for c in candidates if (one := c.rejection))
        summary: dict[str, Any] = {
            **counts,
            "rows_dropped": dropped,
            "candidates": len(candidates),
            "passed": len(passed),
            "rejected": dict(rejected.most_common()),
            "votes": _vote_counts(candidates),
            "generator": self.writer.version,
            "moderation": self.moderator.version,
            "data_version": f"overbench {__version__}",
        }
        self.say(
            f"{number_of(len(seeds), 'seed')}, {number_of(len(candidates), 'candidate')}, {len(passed):,} "
            "passed all filters"
        )
        records = in_order_of_ids(map(self._record, passed))
        turned_away = (_rejected(one) for one in candidates if one.rejection is not None)
        write_lines(self.folder / "data" / "rejections.jsonl", turned_away)
        write_lines(self.folder / "data" / REWRITTEN_NAME, records)
        if self.settings.targets:
            summary |= self._verify(records)
        with whole_file(self.folder / "data" / "summary.json") as file:
            json.dump(summary, file, indent=1, ensure_ascii=False)
        return summary

    def _write_settings(self) -> None:
        try:
            with whole_file(self.folder / "settings.yaml") as file:
                used = self.settings.model_dump(mode="json")
                yaml.safe_dump(used, file, sort_keys=False, allow_unicode=True)
        except OSError as error:
            raise OverbenchError(
                f"The run directory {self.folder} cannot be written: {error}. Make room or mend the rights."
            ) from error

    def _candidates(self, seeds: Sequence[ToxicSeed], counts: Counter[str]) -> Iterator[RewriteCandidate]:
        """Every candidate with its filter's decision, in the order of the seeds."""
        filters = LocalFilters(self.settings.filters, seeds)
        # Batch files come back after hours: then all seeds are one batch.
        size = len(seeds) if self.settings.writer.batch_folder else self.settings.batch
        with tqdm(desc="rewrite", total=len(seeds), unit="seed", disable=None) as bar:
            for start in range(0, len(seeds), size):
                batch = seeds[start : start + size]
                written = self._write(batch)
                failures = [one.failure for one in written if one.failure]
                counts["requests_without_answer"] += len(failures)
                self._last_failure = failures[-1] if failures else self._last_failure
                yield from self._moderated(filters.judged(batch, written))
                bar.update(len(batch))

    def _write(self, seeds: Sequence[ToxicSeed]) -> list[Written]:
        jobs = [Job(f"rewrite-{prompt_id(one.prompt)}", one.id, one.prompt, "", 0) for one in seeds]
        written = self.writer.write(jobs)
        if self.writer.stopped_because:
            raise OverbenchError(
                f"The writer stopped answering: {self.writer.stopped_because}. What it wrote is kept: start "
                "the same command again to go on."
            )
        return written

    def _moderated(self, candidates: Sequence[RewriteCandidate]) -> Iterator[RewriteCandidate]:
        left = [one.prompt for one in candidates if one.rejection is None]
        votes = iter(self.moderator.votes(left))
        for one in candidates:
            if one.rejection is not None:
                yield one
                continue
            cast = next(votes)
            said = Counter(vote.verdict for vote in cast)
            reason = "harmful" if said["harmful"] else "unscored"
            problem = Rejection("moderation", reason, json.dumps(said, sort_keys=True))
            yield replace(one, votes=cast, rejection=None if self.moderator.passes(cast) else problem)

    def _record(self, one: RewriteCandidate) -> dict[str, Any]:
        """The fields of the project's prompt record."""
        filed = categorise(one.prompt)
        return {
            "id": one.prompt_id,
            "prompt": one.prompt,
            "prompt_label": "safe",
            "category": filed.category,
            "category_evidence": filed.evidence,
            "or_bench_category": filed.or_bench_category,
            "features": [],
            "seed_id": one.seed.id,
            "seed_category": one.seed.category,
            "generator": self.writer.version,
            "moderation": UNMODERATED if self.moderator.unmoderated else _cast(one.votes),
            "data_version": f"overbench {__version__}",
        }

    def _verify(self, records: list[dict[str, Any]]) -> dict[str, Any]:
        """Ask the targets, note who refuses in the records, and write the hard subset."""
        kept = ReplyFile(self.folder / "replies.jsonl")
        prompts = {one["id"]: one["prompt"] for one in records}
        said = {
            target.name: verdicts(target, prompts, self.labeller, kept, self.settings.chunk_size)
            for target in self.targets
        }
        for one in records:
            one["refused_by"], one["unscored_by"] = refusals(one["id"], said)
        hard = [one for one in records if len(one["refused_by"]) >= self.settings.min_rejections]
        write_lines(self.folder / "data" / REWRITTEN_NAME, records)
        write_lines(self.folder / "data" / HARD_NAME, hard)
        by_target = {name: dict(Counter(one.label for one in found.values())) for name, found in said.items()}
        least, targets = self.settings.min_rejections, number_of(len(said), "target")
        self.say(f"{len(hard):,} refused by at least {least} of {targets}")
        return {"targets": by_target, "labelled_by": self.labeller.name, "hard": len(hard)}


def _rejected(one: RewriteCandidate) -> dict[str, Any]:
    assert one.rejection is not None
    named = {"prompt_id": one.prompt_id, "prompt": one.prompt, "seed_id": one.seed.id}
    return {**named, **one.rejection.row(), "votes": _cast(one.votes)}


def _cast(votes: Sequence[Vote]) -> list[dict[str, str]]:
    """Votes without what they cost."""
    return [{"by": vote.by, "verdict": vote.verdict, "said": vote.said} for vote in votes]


def _vote_counts(candidates: Sequence[RewriteCandidate]) -> dict[str, dict[str, int]]:
    """By judge how many of its votes say what."""
    counts: dict[str, Counter[str]] = {}
    for one in candidates:
        for vote in one.votes:
            counts.setdefault(vote.by, Counter())[vote.verdict] += 1
    return {name: dict(sorted(said.items())) for name, said in counts.items()}


def plan_lines(settings: RewriteSettings) -> list[str]:
    """``--dry_run``: what will be asked of whom, at most. Reads the seeds; calls nothing that costs.

    Raises:
        OverbenchError: seeds that can't be read.
    """
    seeds, dropped = read_toxic_seeds(settings.seeds)
    most = len(seeds) * settings.writer.candidates
    more = f" ({', '.join(f'{reason} {count:,}' for reason, count in dropped.items())})" if dropped else ""
    judges = ", ".join(judge.model for judge in settings.moderation.judges)
    votes = (
        f"at most {number_of(most, 'vote')} of each of {judges}" if judges else "no votes of a language model"
    )
    targets = ", ".join(target.name for target in settings.targets) or "none"
    return [
        f"{number_of(len(seeds), 'seed')}{more}",
        f"{number_of(len(seeds), 'request')} to {settings.writer.model} ({settings.writer.generator}), "
        f"{number_of(settings.writer.candidates, 'prompt')} each",
        votes,
        f"targets that are asked what passes: {targets}{_labels(settings, most)}",
    ]


def _labels(settings: RewriteSettings, prompts: int) -> str:
    """Who labels the replies to at most so many prompts, and by how many paid calls."""
    share = settings.labeller.kind.calls_per_reply
    if not settings.targets:
        return ""
    replies = prompts * len(settings.targets)
    said = f"; at most {number_of(replies, 'reply')}, labelled by {settings.labeller.by}"
    return f"{said}, of which about {share:.0%} cost a call of the judge" if share else said
