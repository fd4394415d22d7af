"""Every library that the packages import is one that pyproject.toml asks for, in whatever extra."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions

from test_plan import PACKAGES, REPOSITORY

ON_REQUEST = {"bert_score"}
"""Of no extra: a message says how to install them, where somebody asks for what they do."""


def imported() -> Iterator[tuple[str, str]]:
    """Each library's first name that is imported, at the top of a module or in a function, and the module."""
    for package in PACKAGES:
        for file in (REPOSITORY / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = [node.module]
                for name in names:
                    yield name.partition(".")[0], str(file.relative_to(REPOSITORY))


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).casefold()


def asked_for() -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    requirements = [*project["dependencies"], *(name for extra in extras for name in extra)]
    return {normal(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in requirements}


def test_every_import_is_declared() -> None:
    distributions, declared = packages_distributions(), asked_for()
    ours = {*PACKAGES, *sys.stdlib_module_names, *ON_REQUEST}
    undeclared = {
        (name, file)
        for name, file in imported()
        if name not in ours and declared.isdisjoint(map(normal, distributions.get(name, [name])))
    }
    assert undeclared == set()
