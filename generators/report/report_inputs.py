"""What a report is made from: any number of lm-eval result folders, and at most one release.

Cells are joined as a release joins them: a prompt is its normalised text, whatever its id; where several
replies of one target are there, the majority of the scored verdicts decides and a tie is unscored. A
release's own cells stand; logs add what it lacks, and the replies that it doesn't keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from generators.release.read import Release, is_release, read_release
from generators.targets.naming import TargetRecord
from overbench_tasks.errors import OverbenchError
from overbench_tasks.logs import sample_logs
from overbench_tasks.records import Label

if TYPE_CHECKING:
    from generators.report.stats.matrix import ResponseMatrix

ALL, HARD = "overbench", "overbench_hard"


@dataclass(frozen=True)
class PromptText:
    """A prompt and what is known of it."""

    id: str
    text: str
    category: str | None = None
    features: tuple[str, ...] = ()
    source_targets: tuple[str, ...] = ()
    or_bench_category: str | None = None


@dataclass(frozen=True)
class PromptSet:
    """One set of prompts with every target's answers to it."""

    name: str
    matrix: ResponseMatrix


@dataclass(frozen=True)
class LabelCount:
    """The labels of one target in one set.

    Attributes:
        labels: how many cells carry each.
        conflicts: cells whose replies were not all labelled alike.
        reasons: why replies could not be scored, where a log says so.
    """

    set_name: str
    target: str
    labelled_by: str
    labels: Counter[Label]
    conflicts: int
    reasons: Counter[str]


@dataclass(frozen=True)
class Setting:
    """How a target was run.

    Attributes:
        tasks: the tasks and their versions, or the release that its answers come from.
        decoding: None where a release alone speaks of it.
        seconds: all its runs together; None where no log says.
    """

    target: TargetRecord
    tasks: str
    decoding: str | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Inputs:
    """All that a report shows.

    Attributes:
        sets: the whole set first, the hard set next, then others by name; at least one.
        prompts: id -> text and facts.
        replies: (id, target) -> a reply, where a log has it.
        labels: by set and target.
        settings: by target.
        sources: what was read, by name alone.
        notes: what a reader must know before trusting a number.
        release: what the prompts come from; None where there are only logs.
    """

    sets: tuple[PromptSet, ...]
    prompts: dict[str, PromptText]
    replies: dict[tuple[str, str], str]
    labels: tuple[LabelCount, ...]
    settings: tuple[Setting, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    release: Release | None = None

    @property
    def checkpoints(self) -> dict[str, str]:
        """Target -> the weights that it shares with its other configurations."""
        return {setting.target.target: setting.target.checkpoint for setting in self.settings}


def read_inputs(paths: Sequence[Path], aliases: Sequence[str] = ()) -> Inputs:
    """Read everything under ``paths``.

    Args:
        paths: lm-eval result folders (as ``--output_path`` had them) and at most one release.
        aliases: ``LONG NAME=short name``, as for ``overbench aggregate``.

    Raises:
        OverbenchError: a path is neither, two releases, a file that cannot be read, or one set with labels
            of two labellers.
    """
    from generators.report.collect import Collector

    releases = [read_release(path) for path in paths if is_release(path)]
    if len(releases) > 1:
        raise OverbenchError(
            f"Expected at most one release, got {', '.join(str(release.folder) for release in releases)}. "
            "Their prompts differ; make a report of each. overbench diff OLD NEW compares two."
        )
    folders = [path for path in paths if not is_release(path)]
    for folder in folders:
        _check_results(folder)
    collector = Collector(releases[0] if releases else None, aliases)
    collector.read_logs(folders)
    return collector.inputs([path.resolve().name for path in paths])


def _check_results(folder: Path) -> None:
    if sample_logs(folder):
        return
    if folder.is_dir() and next(folder.rglob("results_*.json"), None):
        raise OverbenchError(
            f"{folder} has lm-eval's results but no sample logs, which hold the verdict on each prompt. "
            "Run lm_eval with --log_samples."
        )
    found = "a folder with neither" if folder.is_dir() else "a file" if folder.exists() else "nothing"
    raise OverbenchError(
        "Expected a release (a folder with release.json) or lm-eval's results (a folder with results_*.json "
        f"and samples_*.jsonl in it or below) at {folder}, found {found}. Check the path."
    )


def joined(labels: Iterable[Label]) -> tuple[Label, bool]:
    """The label of one cell with several replies, and whether they conflict.

    The majority of the scored labels decides; a tie is ``unscored``, and so is a cell without a scored label.
    Conflicts are differing scored labels.
    """
    scored = Counter(label for label in labels if label != "unscored").most_common(2)
    if not scored:
        return "unscored", False
    if len(scored) > 1 and scored[0][1] == scored[1][1]:
        return "unscored", True
    return scored[0][0], len(scored) > 1
