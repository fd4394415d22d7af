"""Lets lm-eval find the OVERBENCH tasks and model types with no flag.

lm-eval 0.4.13 has no plugin entry point. ``overbench_autoload.pth`` imports this module at
interpreter start, and :func:`install` puts one finder on ``sys.meta_path``. It waits for the module
that indexes lm-eval's tasks and adds our folder next to lm-eval's own, and for the one that lists
lm-eval's model types and adds the names of ours. Until then nothing else is imported, and a process that
never uses lm-eval pays for one small module.

``TaskManager`` is left as it is: ``include_defaults=False`` stays without us, an ``--include_path``
still overrides us, and ``OVERBENCH_NO_AUTOLOAD=1`` switches all of it off.
"""

# Import machinery without annotations: importing typing would be half of this module's cost.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

import os
import sys

INDEX_MODULE = "lm_eval.tasks._index"
MODELS_MODULE = "lm_eval.models"


def tasks_path() -> str:
    """The folder of task configurations, for ``lm_eval --include_path``.

    A wheel carries it inside the package; a checkout keeps it beside the package.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    packaged = os.path.join(package, "task_configs")
    return packaged if os.path.isdir(packaged) else os.path.join(os.path.dirname(package), "task_configs")


def is_enabled() -> bool:
    """Whether ``OVERBENCH_NO_AUTOLOAD`` leaves the automatic route on (it is by default)."""
    return os.environ.get("OVERBENCH_NO_AUTOLOAD", "") in ("", "0")


def install() -> None:
    """Make lm-eval know our tasks and model types, now or when its modules are first imported.

    Calling it twice changes nothing. Never raises: it runs at interpreter start.
    """
    if not is_enabled():
        return
    waiting = {getattr(finder, "waits_for", None) for finder in sys.meta_path}
    for name, amend in AMENDED.items():
        if name in sys.modules:
            amend(sys.modules[name])
        elif name not in waiting:
            sys.meta_path.insert(0, _AmendingFinder(name))


class _AmendingFinder:
    """Finds nothing itself: lets the other finders find one module of lm-eval's, then amends that."""

    def __init__(self, name) -> None:
        self.waits_for = name

    def find_spec(self, name, path=None, target=None):
        if name != self.waits_for:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec else None
            if spec is not None:
                _amend_after_exec(spec, AMENDED[name])
                return spec
        return None


def _amend_after_exec(spec, amend) -> None:
    loader = spec.loader
    if not hasattr(loader, "exec_module"):
        return
    exec_module = loader.exec_module

    def exec_and_amend(module):
        exec_module(module)
        amend(module)

    loader.exec_module = exec_and_amend


def _add_our_models(models_module) -> None:
    """Register our model types beside lm-eval's own, as it does: by the class's place, unimported."""
    registry = getattr(sys.modules.get("lm_eval.api.registry"), "model_registry", None)
    if registry is None:
        return
    from overbench_tasks.providers.model_types import OUR_TYPES

    for kind in OUR_TYPES:
        if kind.name not in registry:
            registry.register(kind.name, target=kind.target)


def _add_our_folder(index_module) -> None:
    """Wrap ``TaskIndex.build`` so that our folder follows lm-eval's own; leave an unknown index as it is."""
    index = getattr(index_module, "TaskIndex", None)
    build = getattr(index, "build", None)
    if index is None or build is None or getattr(build, "adds_overbench", False):
        return
    defaults = os.path.dirname(os.path.abspath(index_module.__file__))

    def build_with_overbench(paths, **options):
        return build(_with_ours(list(paths), defaults), **options)

    setattr(build_with_overbench, "adds_overbench", True)  # noqa: B010 (a new attribute)
    build_with_overbench.__doc__ = build.__doc__
    index.build = staticmethod(build_with_overbench)


def _with_ours(paths, defaults):
    """``paths`` with our folder right after lm-eval's own, since later folders override ours."""
    real = [os.path.realpath(path) for path in paths]
    ours, theirs = os.path.realpath(tasks_path()), os.path.realpath(defaults)
    if theirs not in real or ours in real:
        return paths
    at = real.index(theirs) + 1
    return [*paths[:at], type(paths[at - 1])(tasks_path()), *paths[at:]]


AMENDED = {INDEX_MODULE: _add_our_folder, MODELS_MODULE: _add_our_models}

install()
