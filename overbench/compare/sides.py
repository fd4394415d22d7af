"""One side of a comparison: what one target did with each prompt, from lm-eval's logs or a release."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from overbench.release.release_inputs import Log, apart, find_logs, notes_on_parts
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.rules_labeller import label_by_rules
from overbench_tasks.outcomes.release_files import Release, is_release, read_release
from overbench_tasks.outcomes.reply_rows import SAMPLES, label_rows, reply_row
from overbench_tasks.outcomes.short_names import short_names
from overbench_tasks.outcomes.target_configs import joined
from overbench_tasks.outcomes.target_names import Aliases, TargetRecord
from overbench_tasks.prompts import prompt_id
from overbench_tasks.prompts.prompt_labels import told_label
from overbench_tasks.prompts.whose_features import attributed_features, named_features
from overbench_tasks.records import LABELS, Label, PromptLabel, Verdict
from overbench_tasks.refusal import RULES_VERSION
from overbench_tasks.tables import read_table

HARD_SET: Final = "overbench_hard"


@dataclass(slots=True)
class PromptAnswers:
    """What one target did with one prompt.

    Attributes:
        prompt_label: None where the log or release doesn't say, as those of earlier versions don't: safe.
        features: the words that attribution found, where a refresh made the prompt.
        named: of any other prompt the words that its writer or file names.
        sets: the tasks or sources that it was asked in.
        labels: how many of its replies have each label; several where it was asked several times.
        labelled_by: whoever labelled them.
    """

    prompt: str
    prompt_label: PromptLabel | None = None
    category: str | None = None
    features: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    sets: set[str] = field(default_factory=set)
    labels: Counter[Label] = field(default_factory=Counter)
    labelled_by: set[str] = field(default_factory=set)

    @property
    def scored(self) -> int:
        """How many replies have a label."""
        return self.labels.total() - self.labels["unscored"]


@dataclass(frozen=True)
class Side:
    """One target.

    Attributes:
        target: who was asked, and how.
        answers: what it did by prompt, under :func:`~overbench_tasks.prompts.prompt_id` of its text.
        read_from: the logs, or the release's folder.
        notes: for people, on what was read.
    """

    target: TargetRecord
    answers: Mapping[str, PromptAnswers]
    read_from: frozenset[Path]
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The target's name."""
        return self.target.target


def read_side(place: str, more: Sequence[Path] = (), *, relabel: bool = False) -> Side:
    """Read one side.

    Args:
        place: an lm-eval output folder or a release; where it holds several targets, with the one that is
            meant behind a colon, by its name or as reports have it: ``responses:org/model``.
        more: further output folders of the same target: its repetitions, or its other tasks.
        relabel: label all replies anew, by today's rules.

    Raises:
        OverbenchError: nothing there, no such target or several, a file that cannot be read, or a release to
            be labelled anew or to be joined with logs.
    """
    folder, wanted = _parsed(place)
    if is_release(folder):
        if relabel or more:
            raise OverbenchError(
                f"{folder} is a release, which holds no replies to label anew and is not joined with logs. "
                "Give the lm-eval output that it was made of, or the release alone."
            )
        return _release_side(read_release(folder), folder, wanted)
    found, others = find_logs([folder, *more], Aliases())
    logs, _, notes = apart(found, [], Aliases())
    name = _chosen((log.target.target for log in logs), wanted, place)
    logs = [log for log in logs if log.target.target == name]
    return Side(
        joined(log.target for log in logs)[name],
        _logged_answers(logs, relabel),
        frozenset(log.run.file for log in logs),
        (*others, *notes_on_parts(logs), *(notes if wanted else ())),
    )


def _parsed(place: str) -> tuple[Path, str | None]:
    """(the folder, the target's name or None); both may hold colons."""
    whole = Path(place).expanduser()
    if whole.exists():
        return whole, None
    for end in (at for at in range(len(place) - 1, 0, -1) if place[at] == ":"):
        if (folder := Path(place[:end]).expanduser()).exists():
            return folder, place[end + 1 :]
    return whole, None


def _chosen(names: Iterable[str], wanted: str | None, place: str) -> str:
    """The name that is meant, by itself or by its short form."""
    by_shown = {shown: name for name, shown in short_names(sorted(set(names))).items()}
    known = {**by_shown, **{name: name for name in by_shown.values()}}
    if wanted in known:
        return known[wanted]
    if wanted is None and len(by_shown) == 1:
        return next(iter(by_shown.values()))
    listed = ", ".join(map(repr, by_shown)) or "none"
    if wanted is None:
        raise OverbenchError(
            f"Expected one target in {place}, found {len(by_shown)}: {listed}. Say which: '{place}:TARGET'."
        )
    near = difflib.get_close_matches(wanted, by_shown, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Targets: {listed}."
    raise OverbenchError(f"{place.removesuffix(f':{wanted}')} has no target {wanted!r}. {hint}")


def _logged_answers(logs: Sequence[Log], relabel: bool) -> dict[str, PromptAnswers]:
    from tqdm import tqdm

    answers: dict[str, PromptAnswers] = {}
    for log in logs:
        source = log.run.metadata.get("overbench_source")
        # Only the last part: where a file lies on somebody's machine is nobody else's business.
        name = f"{log.run.task} ({Path(str(source)).name})" if source else log.run.task
        labelled_by = f"rules {RULES_VERSION}" if relabel else log.run.labelled_by
        rows = tqdm(
            _rows(log.run.file, relabel), log.run.file.name, unit=" replies", disable=None, leave=False
        )
        for doc, verdicts, where in rows:
            one = answers.setdefault(prompt_id(doc["prompt"]), PromptAnswers(doc["prompt"]))
            _describe(one, doc, where)
            one.sets.add(name)
            one.labelled_by.add(labelled_by)
            one.labels.update(verdict.label for verdict in verdicts)
    return answers


def _rows(file: Path, relabel: bool) -> Iterator[tuple[Mapping[str, Any], Sequence[Verdict], str]]:
    """(doc, verdicts, where) of each prompt of a sample log, by its first filter."""
    first = None
    for where, raw in read_table(file):
        row = reply_row(raw, SAMPLES, where)
        first = row.filter if first is None else first
        if row.filter == first:
            [(_, verdicts)] = label_rows([row], label_by_rules) if relabel else [(row, row.logged or ())]
            yield raw["doc"], verdicts, where


def _describe(one: PromptAnswers, row: Mapping[str, Any], where: str) -> None:
    """Add what a row says of its prompt."""
    one.prompt_label = agreed_label(one.prompt, one.prompt_label, told_label(row, where))
    one.category = one.category or row.get("category")
    one.features = one.features or attributed_features(row)
    one.named = one.named or named_features(row)


def agreed_label(prompt: str, *said: PromptLabel | None) -> PromptLabel | None:
    """What files say of a prompt, where any says something.

    Raises:
        OverbenchError: one says safe, another unsafe.
    """
    found = set(said) - {None}
    if len(found) > 1:
        raise OverbenchError(
            f"The prompt {prompt[:80]!r} is safe in one file and unsafe in another. Mend the prompt file "
            "that is wrong, and run the task again."
        )
    return next(iter(found), None)


def _release_side(release: Release, folder: Path, wanted: str | None) -> Side:
    import pyarrow.compute as pc

    targets = {target.target: target for target in release.targets()}
    name = _chosen(targets, wanted, str(folder))
    answers: dict[str, PromptAnswers] = {}
    hard = set(release.prompts(hard=True, columns=("id",))["id"].to_pylist())
    columns = ("id", "prompt", "category", "features", "round", "sources")
    kinds: dict[PromptLabel, Any] = {"safe": release.prompts(columns=columns)}
    if (unsafe := release.unsafe_prompts(columns)) is not None:
        kinds["unsafe"] = unsafe
    for kind, prompts in kinds.items():
        cells = release.matrix(unsafe=kind == "unsafe")
        own = {row["id"]: row for row in cells.filter(pc.equal(cells["target"], name)).to_pylist()}
        for row in prompts.to_pylist():
            if (cell := own.get(row["id"])) is None:
                continue
            one = answers.setdefault(prompt_id(row["prompt"]), PromptAnswers(row["prompt"]))
            _describe(one, {**row, "prompt_label": kind}, str(release.folder))
            one.sets |= {*(row["sources"] or ()), *([HARD_SET] if row["id"] in hard else ())}
            one.labels.update(_cell_labels(cell))
            one.labelled_by |= {cell["labelled_by"]} - {None}
    return Side(targets[name], answers, frozenset([release.folder.resolve()]))


def _cell_labels(cell: Mapping[str, Any]) -> dict[Label, int]:
    """How many verdicts of a cell have each label; without counts all are as its label."""
    if cell.get("refused") is not None:
        return {label: cell[label] for label in LABELS}
    return {cell["label"]: cell["verdicts"] or 1}
