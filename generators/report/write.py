"""Writes a report: the page, the Markdown summary beside it, and each figure as PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from generators.release.errors import ReleaseError


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
        ReleaseError: see :func:`generators.report.inputs.read_inputs`; also where ``out`` is no HTML file
            or cannot be written, or a package for figures is missing.
    """
    if out.suffix != ".html":
        raise ReleaseError(f"Expected --out to end in .html, got {out}. Name the page, e.g. report.html.")
    if not paths:
        raise ReleaseError("Expected at least one release or folder of lm-eval's results, got none.")
    _check_packages()
    from generators.report import figures
    from generators.report.content import build
    from generators.report.inputs import read_inputs
    from generators.report.markdown import markdown
    from generators.report.page import html

    report = build(read_inputs(paths, aliases), title)
    folder = out.with_name(f"{out.stem}_figures")
    files = {
        out: html(report).encode(),
        out.with_suffix(".md"): markdown(report, out.name, folder.name).encode(),
    }
    for section in report.sections:
        for picture in section.pictures:
            files[folder / f"{picture.key}.svg"] = figures.svg(picture)
            files[folder / f"{picture.key}.png"] = figures.png(picture)
    for file, content in files.items():
        _write(file, content)
    return list(files)


def _write(file: Path, content: bytes) -> None:
    partial = file.with_name(file.name + ".partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(file)
    except OSError as error:
        raise ReleaseError(f"{file} cannot be written: {error}. Name another place with --out.") from error


def _check_packages() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("duckdb", "matplotlib", "scipy", "seaborn") if find_spec(name) is None]
    if missing:
        raise ReleaseError(
            f"A report needs {', '.join(missing)}, which is not installed: pip install 'overbench[report]'."
        )
