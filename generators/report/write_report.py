"""Writes a report: the page, the Markdown summary beside it, and each figure as PNG and SVG."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from overbench_tasks.errors import OverbenchError
from overbench_tasks.tables import whole_file


def make_report(
    paths: Sequence[Path], out: Path, *, aliases: Sequence[str] = (), title: str = "OVERBENCH report"
) -> list[Path]:
    """Make a report.

    All of it is built before the first file is written, and each file replaces its forerunner whole.

    Args:
        paths: lm-eval result folders and at most one release.
        out: the page, ``NAME.html``; the rest is ``NAME.md`` and ``NAME_figures/*.{png,svg}`` beside it.
        aliases: ``LONG NAME=short name``.
        title: the heading.

    Returns:
        the files written, the page first.

    Raises:
        OverbenchError: see :func:`generators.report.report_inputs.read_inputs`; also where ``out`` is no
            HTML file or cannot be written, or a package for figures is missing.
    """
    if out.suffix != ".html":
        raise OverbenchError(f"Expected --out to end in .html, got {out}. Name the page, e.g. report.html.")
    if not paths:
        raise OverbenchError("Expected at least one release or folder of lm-eval's results, got none.")
    folder = out.with_name(f"{out.stem}_figures")
    _check_place(out, folder)
    _check_packages()
    from generators.report import figures
    from generators.report.content import build
    from generators.report.page import html, markdown
    from generators.report.report_inputs import read_inputs

    report = build(read_inputs(paths, aliases), title)
    files = {
        out: html(report).encode(),
        out.with_suffix(".md"): markdown(report, out.name, folder.name).encode(),
    }
    for section in report.sections:
        for picture in section.pictures:
            files[folder / f"{picture.key}.svg"] = figures.svg(picture)
            files[folder / f"{picture.key}.png"] = figures.png(picture)
    _write(files)
    return list(files)


def _check_place(out: Path, folder: Path) -> None:
    """Before minutes of drawing: could the files be there?"""
    problem = None
    if out.is_dir():
        problem = f"{out} is a folder"
    elif folder.exists() and not folder.is_dir():
        problem = f"{folder}, for the pictures, is a file"
    else:
        parent = next(one for one in out.absolute().parents if one.exists())
        if not parent.is_dir():
            problem = f"{parent} is a file"
        elif not os.access(parent, os.W_OK | os.X_OK):
            problem = f"{parent} may not be written to"
    if problem:
        raise OverbenchError(f"{out} cannot be written: {problem}. Name another place with --out.")


def _write(files: Mapping[Path, bytes]) -> None:
    """All files, or none: they take their places once each has been written whole."""
    try:
        with ExitStack() as stack:
            for file, content in files.items():
                stack.enter_context(whole_file(file)).buffer.write(content)
    except OSError as error:
        out = next(iter(files))
        raise OverbenchError(f"{out} cannot be written: {error}. Name another place with --out.") from error


def _check_packages() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("duckdb", "matplotlib", "scipy", "seaborn") if find_spec(name) is None]
    if missing:
        raise OverbenchError(
            f"A report needs {', '.join(missing)}, which is not installed: pip install 'overbench[report]'."
        )
