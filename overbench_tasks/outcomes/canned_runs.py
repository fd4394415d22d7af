"""Canned replies in whole runs: all replies of a target to a set, whatever ranks, shards or files hold them.

A task's filter sees the replies of one rank or one shard. It marks the canned ones among them and keeps
fingerprints in the verdicts. What is made here of all sample logs together holds for the whole run, so that
one rank or two, one file or ten give the same labels. Logs of labellers that did not look for canned replies
stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from overbench_tasks.outcomes.logs import LoggedRun
from overbench_tasks.outcomes.reply_rows import read_replies
from overbench_tasks.outcomes.target_names import logged_target
from overbench_tasks.records import Verdict
from overbench_tasks.refusal.canned import NAME_SUFFIX, OpeningCounts, SharedOpenings

RunKey = tuple[str | None, str]
"""(target key, task): what replies are compared with each other."""


def run_key(run: LoggedRun) -> RunKey:
    """Which replies those of a sample log are compared with."""
    return logged_target(run).key, run.task


def openings_of_runs(runs: Sequence[LoggedRun]) -> dict[RunKey, SharedOpenings]:
    """What several prompts share, for each target and task of sample logs that were labelled with
    :data:`~overbench_tasks.refusal.canned.NAME_SUFFIX`. Reads each of these logs once.

    Raises:
        OverbenchError: a line is cut off or no sample of our tasks.
    """
    counts: dict[RunKey, OpeningCounts] = defaultdict(OpeningCounts)
    for run in runs:
        if not run.labelled_by.endswith(NAME_SUFFIX):
            continue
        of_run = counts[run_key(run)]
        for row in read_replies(run.file):
            for reply, verdict in zip(row.replies, row.logged or (), strict=True):
                of_run.add(row.prompt, reply, known=verdict.fingerprint)
    return {key: of_run.shared() for key, of_run in counts.items()}


def settled(verdicts: Iterable[Verdict], shared: SharedOpenings) -> tuple[Verdict, ...]:
    """Logged verdicts, decided again for the whole run."""
    return tuple(shared.settled(verdict, verdict.fingerprint) for verdict in verdicts)
