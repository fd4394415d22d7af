"""Modules of 0.1 under the names that they had: imported with a warning until 0.3.

:func:`install` puts one finder on ``sys.meta_path``. It knows the old names of :data:`MOVED`, imports the
module of the new name, and enters it under both.
"""

# Imported at interpreter start, so that nothing is imported here, and little is made.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

import sys

MOVED = {
    **{
        f"generators.{name}": f"overbench.{name}"
        for name in (
            "campaign",
            "cli",
            "commands",
            "compare",
            "diversity",
            "doctor",
            "explain",
            "quickstart",
            "release",
            "report",
            "subset",
        )
    },
    "generators.adversary.batch_files": "overbench_tasks.chat.batch_files",
    "generators.defences": "overbench_tasks.defences",
    "generators.gates": "generators.prompt_filters",
    "generators.models.registry": "generators.models.catalogue",
    "generators.refresh.gating": "generators.refresh.filtering",
    "generators.release.cells": "overbench.release.matrix_entries",
    "generators.release.outcomes": "overbench_tasks.outcomes.outcome_tables",
    "generators.release.read": "overbench_tasks.outcomes.release_files",
    "generators.rewrite.local_gates": "generators.rewrite.local_filters",
    "generators.targets.naming": "overbench_tasks.outcomes.target_names",
    "generators.targets.ways_of_asking": "overbench_tasks.outcomes.target_configs",
    "overbench_tasks.chat.outcome": "overbench_tasks.chat.response",
    "overbench_tasks.classifier": "overbench_tasks.labellers.classifier",
    "overbench_tasks.judge": "overbench_tasks.labellers.judge",
    "overbench_tasks.metrics.until_width": "overbench_tasks.metrics.stop_at_ci_width",
    "overbench_tasks.logs": "overbench_tasks.outcomes.logs",
    "overbench_tasks.reply_rows": "overbench_tasks.outcomes.reply_rows",
    "overbench_tasks.review": "overbench.review",
}
"""Old name of a module or package -> its name today. What lies in a package moved with it."""


def new_name(module: str) -> str | None:
    """The name today of a module of 0.1; None where it has not moved."""
    parts = module.split(".")
    for end in range(len(parts), 1, -1):
        today = MOVED.get(".".join(parts[:end]))
        if today is not None:
            return ".".join([today, *parts[end:]])
    return None


def install() -> None:
    """Let old names be imported. Calling it twice changes nothing."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedFinder())


class _MovedFinder:
    def find_spec(self, name, path=None, target=None):
        today = new_name(name) if name.startswith(("generators.", "overbench_tasks.")) else None
        if today is None:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, _MovedLoader(today))  # type: ignore[arg-type]


class _MovedLoader:
    def __init__(self, today) -> None:
        self.today = today

    def create_module(self, spec):
        return None

    def exec_module(self, module) -> None:
        import warnings
        from importlib import import_module

        old = module.__name__
        warnings.warn(
            f"{old} is {self.today} since 0.2.0; the old name goes with 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[old] = import_module(self.today)
