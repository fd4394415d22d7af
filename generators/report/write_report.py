"""What a report says, and its files: the page, a Markdown summary, and each figure as PNG and SVG."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from generators.report import figures
from generators.report.page import html, markdown
from generators.report.report_inputs import Inputs, read_inputs
from generators.report.sections.comparison_sections import significance_section, transfer_section
from generators.report.sections.prompt_sections import prompts_section
from generators.report.sections.rate_sections import categories_section, features_section, rates_section
from generators.report.sections.run_sections import labels_section, release_section, settings_section
from generators.report.sections.section import Report, highest_first, set_name, short_names
from generators.report.stats.rates import osr
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

    missing = [
        name
        for name in ("duckdb", "matplotlib", "scipy", "seaborn", "statsmodels")
        if find_spec(name) is None
    ]
    if missing:
        raise OverbenchError(
            f"A report needs {', '.join(missing)}, which is not installed: pip install 'overbench[report]'."
        )


def build(inputs: Inputs, title: str = "OVERBENCH report") -> Report:
    """Everything that ``inputs`` allow to be said; a section without data is left out."""
    names = short_names(inputs)
    main = inputs.sets[0]
    sections = [
        rates_section(inputs, names),
        features_section(main, names),
        categories_section(inputs, names),
        transfer_section(inputs, names),
        significance_section(main, names),
        prompts_section(inputs, names),
        labels_section(inputs, names),
        settings_section(inputs, names),
        release_section(inputs),
    ]
    notes = list(inputs.notes)
    if not any(main.matrix.source_targets):
        notes.append(
            "For which model each prompt was made is not in these logs, so transfer and leave-source-out "
            "rates are left out. They need a release: overbench aggregate."
        )
    return Report(title, _lead(inputs, names), tuple(notes), tuple(filter(None, sections)))


def _lead(inputs: Inputs, names: Mapping[str, str]) -> tuple[str, ...]:
    main = inputs.sets[0]
    rates = {target: rate for target, rate in osr(main.matrix).items() if rate.n}
    lead = [
        f"{len(main.matrix.targets)} models on harmless prompts: "
        f"{', '.join(set_name(one) for one in inputs.sets)}. Made from {', '.join(inputs.sources)}."
    ]
    if rates:
        order = highest_first(rates)
        told = [
            f"{names[target]}, {100 * rates[target].value:.1f} %"
            for target in dict.fromkeys((order[0], order[-1]))
        ]
        lead.append(
            f"Highest oversensitivity rate on {main.name}: {told[0]}"
            + (f"; lowest: {told[1]}." if len(told) > 1 else ".")
        )
    return tuple(lead)
