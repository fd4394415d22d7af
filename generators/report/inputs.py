"""What a report is made from: any number of lm-eval result folders, and at most one release.

Cells are joined as a release joins them: a prompt is its normalised text, whatever its id; where several
replies of one target are there, the majority of the scored verdicts decides and a tie is unscored. A
release's own cells stand; logs add what it lacks, and the replies that it doesn't keep.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from generators.release.errors import ReleaseError
from generators.release.read import Release, is_release, read_release
from generators.report.logs import Run, Sample, is_log_folder, read_runs, read_samples
from overbench_tasks.records import Label
from overbench_tasks.sources import normalised, prompt_id

if TYPE_CHECKING:
    from generators.release.matrix_view import ResponseMatrix

ALL, HARD = "overbench", "overbench_hard"


@dataclass(frozen=True)
class PromptText:
    """A prompt and what is known of it."""

    id: str
    text: str
    category: str | None = None
    features: tuple[str, ...] = ()
    source_targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptSet:
    """One set of prompts with every target's answers to it."""

    name: str
    matrix: ResponseMatrix


@dataclass(frozen=True)
class LabelCount:
    """How many cells of one target in one set carry which label, and who gave them."""

    set_name: str
    target: str
    labelled_by: str
    labels: Counter[Label]
    conflicts: int
    reasons: Counter[str]


@dataclass(frozen=True)
class Setting:
    """How a target was run; None where it isn't known."""

    target: str
    checkpoint: str
    model: str | None
    model_args: str | None
    system_instruction: str | None
    chat_template: bool | None
    max_gen_toks: int | None
    decoding: str | None
    lm_eval_version: str | None
    labelled_by: str | None
    tasks: str
    seconds: float | None = None


@dataclass(frozen=True)
class Inputs:
    """All that a report shows.

    Attributes:
        sets: the whole set first, the hard set next, then others by name; at least one, none empty.
        prompts: id -> text and facts.
        replies: (id, target) -> a reply, where a log has it.
        checkpoints: target -> the weights it shares with its other configurations.
        sources: what was read, by name alone.
        notes: what a reader must know before trusting a number.
    """

    sets: tuple[PromptSet, ...]
    prompts: dict[str, PromptText]
    replies: dict[tuple[str, str], str]
    labels: tuple[LabelCount, ...]
    settings: tuple[Setting, ...]
    checkpoints: dict[str, str]
    sources: tuple[str, ...]
    notes: tuple[str, ...]


def read_inputs(paths: Sequence[Path], aliases: Sequence[str] = ()) -> Inputs:
    """Read everything under ``paths``.

    Args:
        paths: lm-eval result folders (as ``--output_path`` had them) and releases.
        aliases: ``LONG NAME=short name``, as for ``overbench aggregate``.

    Raises:
        ReleaseError: a path is neither, two releases, a file that cannot be read, one set labelled by
            two labellers, or nothing to show.
    """
    releases, folders = _kinds(paths)
    collected = _Collected(aliases)
    for folder in folders:
        for run in read_runs(folder):
            collected.add_run(run)
    if releases:
        collected.add_release(releases[0])
    return collected.finished([path.resolve().name for path in paths])


def _kinds(paths: Sequence[Path]) -> tuple[list[Release], list[Path]]:
    releases, folders = [], []
    for path in paths:
        if is_release(path):
            releases.append(read_release(path))
        elif path.is_dir() and is_log_folder(path):
            folders.append(path)
        else:
            found = "a folder with neither" if path.is_dir() else "a file" if path.exists() else "nothing"
            raise ReleaseError(
                f"Expected a release (a folder with release.json) or lm-eval's results (a folder with "
                f"results_*.json in it or below) at {path}, found {found}. Check the path."
            )
    if len(releases) > 1:
        raise ReleaseError(
            f"Expected at most one release, got {', '.join(str(release.folder) for release in releases)}. "
            "Their prompts differ; make a report of each. overbench diff OLD NEW compares two."
        )
    return releases, folders


@dataclass
class _Cell:
    labels: list[Label] = field(default_factory=list)
    labelled_by: str = ""
    reasons: list[str] = field(default_factory=list)


class _Collected:
    """Gathers cells by set family, prompt and target; see :func:`_family`."""

    def __init__(self, aliases: Sequence[str]) -> None:
        from generators.release.naming import Aliases

        self.aliases = Aliases.parse(aliases)
        self.prompts: dict[str, PromptText] = {}
        self.cells: dict[str, dict[tuple[str, str], _Cell]] = defaultdict(dict)
        self.members: dict[str, dict[str, None]] = defaultdict(dict)
        self.labellers: dict[str, dict[str, str]] = defaultdict(dict)
        self.replies: dict[tuple[str, str], str] = {}
        self.settings: list[Setting] = []
        self.checkpoints: dict[str, str] = {}
        self.notes: list[str] = []
        self._ids: dict[str, str] = {}
