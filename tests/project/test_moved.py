"""Names of modules of 0.1 are imported with a warning, and are the modules of today."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from overbench_tasks.moved import MOVED, new_name


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_module_of_today(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is {MOVED[old]} since 0.2.0"):
        assert import_module(old) is import_module(MOVED[old])


def test_what_lies_in_a_moved_package_moved_with_it() -> None:
    with pytest.warns(DeprecationWarning):
        from generators.report.write_report import build  # type: ignore[import-not-found]

    from overbench.report import write_report

    assert build is write_report.build
    assert new_name("generators.release.read") == "overbench_tasks.outcomes.release_files"
    assert new_name("generators.releases") is None and new_name("json") is None
