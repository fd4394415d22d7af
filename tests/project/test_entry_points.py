"""The entry points for lm-eval: they name what is there, and nothing is registered twice."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from lm_eval.api import registry
from lm_eval.api.registry import Registry

from overbench_tasks import autoload, filters
from overbench_tasks.agents import action_filter
from overbench_tasks.labellers.registry import filter_kinds
from overbench_tasks.providers.model_types import OUR_TYPES

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def entry_points(group: str) -> dict[str, EntryPoint]:
    """What pyproject.toml declares: an installed copy may be another one."""
    declared = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["entry-points"][group]
    return {name: EntryPoint(name, target, group) for name, target in declared.items()}


def test_every_model_type_and_filter_is_declared_and_no_other() -> None:
    models = {name: entry.value for name, entry in entry_points("lm_eval.models").items()}
    assert models == {kind.name: kind.target for kind in OUR_TYPES}
    labellers = [kind.function for kind in filter_kinds()]
    assert list(entry_points("lm_eval.filters")) == [*labellers, action_filter.FUNCTION]


@pytest.mark.parametrize("group", ["lm_eval.models", "lm_eval.filters"])
def test_an_entry_point_gives_what_lm_eval_has_under_its_name(group: str) -> None:
    registered = {"lm_eval.models": registry.model_registry, "lm_eval.filters": registry.filter_registry}
    action_filter.register()
    for name, entry in entry_points(group).items():
        assert entry.load() is registered[group].get(name)


def test_a_model_type_that_an_entry_point_registered_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    models: Registry[object] = Registry("model")
    monkeypatch.setattr(registry, "model_registry", models)
    entries = entry_points("lm_eval.models")
    first = next(iter(entries))
    models.register(first, target=entries[first])
    for _ in range(2):
        autoload._add_our_models(ModuleType("lm_eval.models"))
    assert dict.fromkeys(models) == dict.fromkeys(kind.name for kind in OUR_TYPES)
    assert models.get(first) is entries[first].load()


def test_a_filter_that_an_entry_point_registered_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    names: Registry[object] = Registry("filter")
    monkeypatch.setattr(registry, "filter_registry", names)
    monkeypatch.setattr(filters, "filter_registry", names)
    entries = entry_points("lm_eval.filters")
    for name, entry in entries.items():
        names.register(name, target=entry)
    filters.register_filters()
    assert {name: names.get(name) for name in names} == {
        name: entry.load() for name, entry in entries.items()
    }


def test_the_filters_module_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'overbench_nothing'"):
        filters.overbench_nothing  # noqa: B018
