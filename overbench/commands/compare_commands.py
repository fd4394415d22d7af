"""The command ``compare``: may a build go on?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from overbench.commands.options import Given, offers, validated
from overbench.compare.compare_settings import CompareSettings


@offers(
    "given",
    CompareSettings,
    {
        "--max_increase": "max_increase",
        "--alpha": "alpha",
        "--min_prompts": "min_prompts",
        "--max_unscored": "max_unscored",
        "--strict": "strict",
        "--relabel": "relabel",
    },
)
def compare(
    *,
    base: Annotated[
        str,
        typer.Argument(
            help="What is there: lm-eval's output folder (run with --log_samples) or a release; where "
            "it holds several targets, FOLDER:TARGET."
        ),
    ],
    new: Annotated[str, typer.Argument(help="What is to take its place.")],
    more_base: Annotated[
        list[Path] | None,
        typer.Option("--more_base", help="A further output folder of BASE: its repetition or other tasks."),
    ] = None,
    more_new: Annotated[
        list[Path] | None, typer.Option("--more_new", help="The same of NEW. Both may be repeated.")
    ] = None,
    given: Given,
    json_output: Annotated[bool, typer.Option("--json", help="As JSON instead of a table.")] = False,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write it as Markdown, too: for a pull request.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write it as JUnit XML, too: for a build server.")
    ] = None,
) -> None:
    """Did NEW get worse than BASE, in over-refusal or in harmful compliance?

    Exit code 1: it did, significantly and by more than --max_increase. 2: the data can't tell, or can't be
    used. 0: nothing shows that it did.
    """
    from overbench.compare.compare_output import as_json, junit_xml, markdown_page, terminal_lines
    from overbench.compare.decision import CANNOT_TELL, compare_targets
    from overbench.compare.sides import read_side
    from overbench_tasks.errors import OverbenchError
    from overbench_tasks.tables import whole_file

    settings = validated(CompareSettings, given)
    try:
        before = read_side(base, more_base or (), relabel=settings.relabel)
        after = read_side(new, more_new or (), relabel=settings.relabel)
        found = compare_targets(before, after, settings)
        for file, text_of in ((markdown, markdown_page), (junit, junit_xml)):
            if file is not None:
                with whole_file(file) as out:
                    out.write(text_of(found))
    except (OverbenchError, OSError) as error:
        # 1 means that a target got worse, which is more than an error says.
        typer.secho(f"Error: {error}", fg="red", err=True)
        raise typer.Exit(CANNOT_TELL) from None
    typer.echo(json.dumps(as_json(found), indent=2) if json_output else "\n".join(terminal_lines(found)))
    raise typer.Exit(found.exit_code)
