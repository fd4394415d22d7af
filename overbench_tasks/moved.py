"""Modules of 0.1 under the names that they had: imported with a warning until 0.3.

:func:`install` puts one finder on ``sys.meta_path``. It knows the old names of :data:`MOVED`, imports the
module of the new name, and enters it under both.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

MOVED: Final = {
    **{
        f"generators.{name}": f"overbench.{name}"
        for name in (
            *("campaign", "cli", "commands", "compare", "diversity", "doctor", "explain", "quickstart"),
            *("release", "report", "subset"),
        )
    },
    "generators.defences": "overbench_tasks.defences",
}
"""Old name of a module or package -> its name today. What lies in a package moved with it."""


def new_name(module: str) -> str | None:
    """The name today of a module of 0.1; None where it has not moved."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        today = MOVED.get(".".join(parts[:end]))
        if today is not None:
            return ".".join([today, *parts[end:]])
    return None


def install() -> None:
    """Let old names be imported. Calling it twice changes nothing."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedFinder())


class _MovedFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        today = new_name(fullname)
        return None if today is None else ModuleSpec(fullname, _MovedLoader(today))


class _MovedLoader(Loader):
    def __init__(self, today: str) -> None:
        self.today = today

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        warnings.warn(
            f"{old} is {self.today} since 0.2.0; the old name goes with 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[old] = import_module(self.today)
