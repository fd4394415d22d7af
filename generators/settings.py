"""Settings of any tool: read from a YAML file, laid over one another, and checked.

A settings file is YAML with sections as keys. Flags and ``section.name=value`` words come on top of it, and a
pydantic model says which settings there are.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from overbench_tasks.errors import OverbenchError

Settings = TypeVar("Settings", bound=BaseModel)


class SettingsSection(BaseModel, frozen=True, extra="forbid"):
    """A section of a settings file: it cannot be changed, and an unknown setting in it is an error.

    The field descriptions are the documentation.
    """


class _EachKeyOnce(yaml.SafeLoader):
    """A key that a mapping has twice is an error, where YAML's last one would count without a word."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in names:
                problem = f"{key.value!r} is there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            names.add(key.value)
        return node


def read_settings(file: Path) -> dict[str, Any]:
    """The sections of a YAML file.

    Raises:
        OverbenchError: it can't be read, has a key twice, or holds something else.
    """
    try:
        settings = yaml.load(file.read_text(encoding="utf-8"), _EachKeyOnce)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise OverbenchError(f"Expected a YAML file of settings at {file}: {error}") from error
    if not isinstance(settings, dict):
        raise OverbenchError(
            f"Expected {file} to hold sections such as 'target:', got {type(settings).__name__}."
        )
    return settings


def assigned(assignments: Sequence[str]) -> dict[str, Any]:
    """The sections that ``section.name=value`` words make; values are YAML.

    Raises:
        OverbenchError: a word of another form.
    """
    merged: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise OverbenchError(f"Expected --set section.name=value, got {assignment!r}.")
        merged = merge(merged, sections({path.strip(): yaml.safe_load(text)}))
    return merged


def with_filters(settings: Mapping[str, Any], *, warn: bool = True) -> dict[str, Any]:
    """``settings`` with the section ``filters`` under that name, where it has its earlier one, ``gates``.

    Args:
        warn: that the earlier name goes; not of what an earlier version stored.

    Raises:
        OverbenchError: the section is there under both names.
    """
    if "gates" not in settings:
        return dict(settings)
    if "filters" in settings:
        raise OverbenchError("The section gates is called filters now, and both are there. Keep one.")
    if warn:
        message = "The section gates is called filters since 0.2.0; the old name goes with 0.3."
        warnings.warn(message, FutureWarning, stacklevel=3)
    return {"filters" if name == "gates" else name: value for name, value in settings.items()}


def sections(values: Mapping[str, Any]) -> dict[str, Any]:
    """``section.name`` settings as the sections of a settings file."""
    found: dict[str, Any] = {}
    for setting, value in values.items():
        *path, name = setting.split(".")
        section = found
        for part in path:
            section = section.setdefault(part, {})
        section[name] = value
    return found


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` laid over ``below``, section by section."""
    merged = dict(below)
    for name, value in above.items():
        inner = merged.get(name)
        if isinstance(value, Mapping):
            value = merge(inner if isinstance(inner, Mapping) else {}, value)
        merged[name] = value
    return merged


def checked(kind: type[Settings], settings: Mapping[str, Any], whose: str = "") -> Settings:
    """The settings as a model of them.

    Raises:
        OverbenchError: names each setting that can't be used, what was expected and what came; ``whose``
            stands before it.
    """
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        lines = [f"{whose}The settings cannot be used."]
        for problem in error.errors(include_url=False):
            name = ".".join(map(str, problem["loc"]))
            if problem["type"] == "extra_forbidden":
                lines.append(f"{name}: there is no such setting.{_nearest(kind, problem['loc'])}")
                continue
            whole = problem["type"] == "missing" or not name
            got = "" if whole else f", got {problem['input']!r}"
            lines.append(f"{name}{': ' if name else ''}{problem['msg']}{got}")
        raise OverbenchError("\n  ".join(lines)) from error


def _nearest(kind: Any, place: Sequence[int | str]) -> str:
    """Which setting may have been meant by an unknown one at ``place``, or all that are there."""
    *path, last = place
    for part in path:
        if _is_model(kind):
            kind = kind.model_fields[str(part)].annotation
            inside = get_origin(kind) in (Union, UnionType)
        else:  # the key or place of a model in a mapping or sequence
            inside = True
        if inside:
            kind = next(filter(_is_model, get_args(kind)), None)
    names = list(kind.model_fields) if _is_model(kind) else []
    near = difflib.get_close_matches(str(last), names, n=1)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" There are: {', '.join(names)}." if names else ""


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
