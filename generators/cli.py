"""The ``overbench`` command. Each command's work is in a module of its own, imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from generators.commands import refresh_commands, release_commands, report_commands, review_commands
from overbench_tasks import __version__

app = typer.Typer(
    help="OVERBENCH: does this model refuse harmless prompts, and which words set it off?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point: errors that a user can mend end with their message, not with a traceback."""
    from overbench_tasks.errors import OverbenchError

    try:
        app()
    except OverbenchError as error:
        typer.secho(f"Error: {error}", fg="red", err=True)
        raise SystemExit(1) from None


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"overbench {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@app.command("tasks-path")
def tasks_path_command() -> None:
    """Print the folder of task files, for lm_eval --include_path."""
    from overbench_tasks.autoload import tasks_path

    typer.echo(tasks_path())


@app.command()
def doctor() -> None:
    """Say what lm-eval sees, which backends import, which keys are set, and what to do about it."""
    from generators.doctor import Status, run_checks

    marks = {
        Status.OK: ("ok  ", "green"),
        Status.NOTE: ("note", "yellow"),
        Status.FAIL: ("FAIL", "red"),
    }
    failed = False
    for check in run_checks():
        mark, colour = marks[check.status]
        typer.echo(f"{typer.style(mark, fg=colour)}  {check.topic}: {check.found}")
        if check.advice:
            typer.echo(f"      -> {check.advice}")
        failed |= check.status is Status.FAIL
    if failed:
        raise typer.Exit(1)


@app.command("models")
def models_command(
    name: Annotated[str | None, typer.Argument(help="Fetch this one. Without it: list them.")] = None,
) -> None:
    """List small named models, or fetch one and print what to give lm_eval as --model_args."""
    from generators.models import models

    if name is not None:
        try:
            model = models.find(name)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="NAME") from None
        typer.echo(models.model_args(model, models.fetch(model)))
        return
    for row in models.describe():
        typer.echo(
            f"{row.name:20} {row.parameters:>5} {row.size / 1e6:>6,.0f} MB  {row.licence}  "
            f"{row.description}\n{'':20} {row.path or 'not fetched'}"
        )


@app.command()
def quickstart(
    model_args: Annotated[
        str | None,
        typer.Option("--model_args", help="lm-eval's arguments of another model, e.g. pretrained=NAME."),
    ] = None,
    model: Annotated[str, typer.Option("--model", help="lm-eval's model type.")] = "hf",
    limit: Annotated[int, typer.Option("--limit", "-L", min=1, help="How many prompts to ask.")] = 40,
    batch_size: Annotated[str, typer.Option("--batch_size", "-b", help="As in lm_eval.")] = "20",
    device: Annotated[str, typer.Option("--device", help="As in lm_eval: cpu, cuda, mps.")] = "cpu",
    output_path: Annotated[
        Path | None,
        typer.Option("--output_path", "-o", help="Keep results and samples here."),
    ] = None,
) -> None:
    """Score a real model on overbench_hard: yours, or a small one that is fetched (0.5 GB)."""
    from generators.quickstart import run

    run(
        model,
        model_args,
        limit=limit,
        batch_size=batch_size,
        device=device,
        output_path=output_path,
    )


for commands in (review_commands, refresh_commands, release_commands, report_commands):
    commands.register(app)

if __name__ == "__main__":
    main()
