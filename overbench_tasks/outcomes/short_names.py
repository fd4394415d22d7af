"""Short names of targets, for people. They have the last part of a folder, and the arguments in which targets
differ.

Files and joins use the names of :mod:`overbench_tasks.outcomes.target_names`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Final, NamedTuple

from overbench_tasks.outcomes.target_record import WHERE_AND_HOW_FAST, public_arguments

OTHER_WEIGHTS: Final = ("peft", "delta", "subfolder", "revision")
"""Arguments of a checkpoint's name that make it another model than the one whose name it begins with."""
_ADDED = re.compile(r"(?: \+system:\S+)?(?: -template)?(?: \(.*\))?$")
_BY_ARGUMENTS = re.compile(r"([\w-]+):(\w+=[^,]*(?:,\w+=[^,]*)*)")
_SNAPSHOT = re.compile(r"(?:^|.*[/\\])models--([^/\\]+)[/\\]snapshots[/\\]([0-9a-f]{7,})(.*)")
_DIGITS: Final = 8


class HubRepository(NamedTuple):
    """The repository of a folder in the hub's cache: ``org/name``, with any folders below, and the commit."""

    name: str
    commit: str


def hub_repository(path: str) -> HubRepository | None:
    """The repository that a folder of the hub's cache holds; None for any other folder."""
    match = _SNAPSHOT.fullmatch(path)
    if match is None:
        return None
    name = match[1].replace("--", "/") + match[3].replace("\\", "/").rstrip("/")
    return HubRepository(name, match[2])


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Names to show, by the names of :mod:`overbench_tasks.outcomes.target_names` of targets and checkpoints.

    A folder is shown by its last part, and a folder of the hub's cache by its repository. A backend without
    ``pretrained`` and ``model`` is shown by its name and the arguments that shape replies. If two checkpoints
    would be shown alike, their differences are added: parent folders, GGUF file, commit, server. So no two
        names are alike. Aliases and names of the hub stay as they are.
    """
    split = {name: name[: match.start()] for name in names if (match := _ADDED.search(name))}
    checkpoints = _short({checkpoint: _Checkpoint.of(checkpoint) for checkpoint in split.values()})
    return {name: checkpoints[split[name]] + name[len(split[name]) :] for name in split}


def shown_arguments(model_args: str | None) -> str | None:
    """Model arguments in full, without the names of folders and machines; a snapshot by its repository."""
    if model_args is None:
        return None
    parts = []
    for argument in model_args.split(","):
        key, equals, value = argument.partition("=")
        repository = hub_repository(value)
        parts.append(f"{key}{equals}{repository.name}@{repository.commit}" if repository else argument)
    return public_arguments(",".join(parts))


@dataclass(frozen=True)
class _Checkpoint:
    """A checkpoint's name in parts: the values of its arguments, with its beginning under ""."""

    parts: Mapping[str, str]
    separator: str = ","

    @classmethod
    def of(cls, name: str) -> _Checkpoint:
        by_arguments = _BY_ARGUMENTS.fullmatch(name)
        base, _, rest = name.partition(",")
        given = [setting.partition("=") for setting in rest.split(",")] if rest else []
        if by_arguments:
            base, given = by_arguments[1], [setting.partition("=") for setting in by_arguments[2].split(",")]
        elif any(key not in ("gguf_file", *OTHER_WEIGHTS) for key, _, _ in given):
            base, given = name, []  # a name of one's own
        parts = {"": base, **{key: value for key, _, value in given}}
        if repository := hub_repository(base):
            parts |= {"": repository.name, "snapshot": repository.commit[:_DIGITS]}
        return cls(parts, ":" if by_arguments else ",")

    def shown(self, more: Set[str] = frozenset(), depth: Mapping[str, int] | None = None) -> str:
        """With the arguments in ``more``, and of paths the last part, or as many as ``depth`` has."""
        depth = depth or {}
        texts = {key: _last_parts(value, depth.get(key, 1)) for key, value in self.parts.items()}
        kept = [
            f"{key}={text}"
            for key, text in texts.items()
            if key and (key in more or key not in _ONLY_WHERE_IT_DIFFERS)
        ]
        return texts[""] + (self.separator if kept else "") + ",".join(kept)


_ONLY_WHERE_IT_DIFFERS: Final = (WHERE_AND_HOW_FAST | {"snapshot"}) - set(OTHER_WEIGHTS)


def _short(checkpoints: Mapping[str, _Checkpoint]) -> dict[str, str]:
    alike: dict[str, list[str]] = defaultdict(list)
    for name, checkpoint in checkpoints.items():
        alike[checkpoint.shown()].append(name)
    shown: dict[str, str] = {}
    for names in alike.values():
        some = [checkpoints[name].parts for name in names]
        keys = {key for parts in some for key in parts}
        values = {key: {parts[key] for parts in some if key in parts} for key in keys}
        differing = {key for key in keys if len({parts.get(key) for parts in some}) > 1}
        depth = {key: _depth(values[key]) for key in differing}
        shown |= {name: checkpoints[name].shown(differing, depth) for name in names}
    taken = Counter(shown.values())
    return {name: text if taken[text] == 1 else name for name, text in shown.items()}


def _depth(values: Set[str]) -> int:
    """How many of the last parts of paths tell them apart."""
    most = max(len(PureWindowsPath(value).parts) for value in values)
    return next(
        (
            depth
            for depth in range(1, most)
            if len({_last_parts(path, depth) for path in values}) == len(values)
        ),
        most,
    )


def _last_parts(value: str, depth: int) -> str:
    """The last parts of a path that is plainly one of a machine; any other text as it is."""
    if not (value.startswith(("/", "~", "./", "../")) or PureWindowsPath(value).is_absolute()):
        return value
    parts: Sequence[str] = PureWindowsPath(value).parts
    return "/".join(parts[-depth:]) if depth < len(parts) else value
