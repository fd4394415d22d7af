"""lm-eval's logs as a release, for a report: cells joined by the same code, and replies to quote."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from generators.release.build import Workspace, open_database, read_prompts
from generators.release.cells import read_verdicts
from generators.release.read import HARD_FILE, PROMPTS_FILE, Release
from generators.release.release_inputs import Log, PromptSource, one_labeller, release_source
from generators.release.release_settings import AggregateSettings, EngineSettings
from generators.release.write_release import write_logged, write_matrix
from generators.targets.naming import Aliases, joined
from overbench_tasks.errors import OverbenchError


@dataclass(frozen=True)
class LoggedRelease:
    """A release of logs, and what a release does not hold.

    Attributes:
        quotes: (id, target) -> the beginning of a refused reply, of each cell that has one in the logs.
        reasons: target -> why replies of it could not be scored.
        strangers: task -> replies to prompts that the release does not have.
    """

    release: Release
    quotes: dict[tuple[str, str], str]
    reasons: dict[str, Counter[str]]
    strangers: Counter[str]


def release_of_logs(logs: Sequence[Log], folder: Path, earlier: Release | None = None) -> LoggedRelease:
    """Join logs into a release.

    Args:
        logs: at least one.
        folder: for the release; made where it is missing.
        earlier: a release whose prompts and cells stand; the logs add the cells that it lacks. None: the
            prompts are those of the logs, all of them.

    Raises:
        OverbenchError: a log cannot be read, or they or the release are labelled by several.
    """
    source = release_source(earlier) if earlier else PromptSource("logs", logs[0].run.file, logs=tuple(logs))
    labelled_by = one_labeller([source], logs)
    targets = joined(log.target for log in logs)
    if earlier is not None:
        known = {target.target: target for target in earlier.targets()}
        targets = known | {name: target for name, target in targets.items() if name not in known}
    try:
        (folder / "work").mkdir(parents=True)
        with open_database(folder / "work", EngineSettings()) as connection:
            work = Workspace(
                connection,
                AggregateSettings(),
                [source],
                logs,
                Aliases(),
                targets,
                labelled_by,
                earlier_stands=True,
                quoting=True,
            )
            read_prompts(work, lambda line: None)
            read_verdicts(work, lambda line: None)
            connection.execute("CREATE TABLE kept AS SELECT number FROM prompts")
            if earlier is None:
                write_logged(work, folder)
            else:
                for name in (PROMPTS_FILE, HARD_FILE):
                    shutil.copyfile(earlier.folder / name, folder / name)
                write_matrix(work, folder)
            facts = earlier.facts if earlier else {"name": "logs", "version": "", "counts": work.counts}
            return LoggedRelease(Release(folder, facts), _quotes(work), _reasons(work), work.strangers)
    except OSError as error:
        raise OverbenchError(f"{folder} cannot be written: {error}. Make room, or set TMPDIR.") from error


def _quotes(work: Workspace) -> dict[tuple[str, str], str]:
    names = list(work.targets)
    rows = work.connection.execute(
        "SELECT id, target, quote FROM quotes JOIN prompts USING (number)"
    ).fetchall()
    return {(identity, names[target]): quote for identity, target, quote in rows}


def _reasons(work: Workspace) -> dict[str, Counter[str]]:
    names = list(work.targets)
    found: dict[str, Counter[str]] = {}
    query = "SELECT target, reason, sum(replies) FROM reasons GROUP BY ALL ORDER BY ALL"
    for target, reason, replies in work.connection.execute(query).fetchall():
        found.setdefault(names[target], Counter())[reason] = int(replies)
    return found
