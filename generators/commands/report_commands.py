"""The command ``overbench report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(help="lm-eval's output folders (run with --log_samples), and at most one release."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    alias: Annotated[
        list[str] | None,
        typer.Option("--alias", help="'LONG NAME=short name' of a model; may be repeated."),
    ] = None,
    title: Annotated[str, typer.Option("--title", help="The heading.")] = "OVERBENCH report",
) -> None:
    """Make a page of rates, figures and the most refused prompts, with a Markdown summary beside it."""
    from generators.report.write_report import make_report

    files = make_report(paths, out, aliases=alias or (), title=title)
    typer.echo(f"{files[0]}: one file, for any browser; {files[1]} and {len(files) - 2} pictures beside it.")
