"""The reading path of the three main jobs: not longer than the page shows."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from test_docs import block
from test_plan import REPOSITORY

pytest.importorskip("captum")
pytest.importorskip("duckdb")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reading path")]


def counts(table: list[str]) -> dict[str, int]:
    """Job -> number of files."""
    return {row.split(" | ")[0].strip("| "): int(row.split(" | ")[1]) for row in table[2:]}


@pytest.fixture(scope="module")
def measured() -> dict[str, int]:
    """In a process of its own: what is cached here would not be entered again."""
    program = REPOSITORY / "benchmarks" / "reading_path.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return counts(done.stdout.splitlines())


def test_no_path_is_longer_than_the_page_shows(measured: dict[str, int]) -> None:
    shown = counts(block("CONTRIBUTING.md", "reading path"))
    assert shown.keys() == measured.keys()
    longer = {job: files for job, files in measured.items() if files > shown[job]}
    assert longer == {}, "shorten it, or put the table of reading_path.py into CONTRIBUTING.md"


def test_the_page_names_files_that_are_there() -> None:
    for row in block("CONTRIBUTING.md", "reading path")[2:]:
        for folder, modules in re.findall(r"`([\w/]+)/`: ([\w, ]+)", row):
            for module in modules.strip().split(", "):
                assert (REPOSITORY / folder / f"{module}.py").is_file(), f"{folder}/{module}.py"
