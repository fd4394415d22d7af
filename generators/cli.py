"""The ``overbench`` command. Each command's work is in a module of its own, imported when it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from generators.commands import refresh_commands, release_commands, report_commands
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


By = Annotated[str, typer.Option("--by", help="Who labels: rules, judge, classifier or two-stage.")]
ByArgs = Annotated[
    str,
    typer.Option("--by_args", help="The labeller's settings, e.g. model=NousResearch/Minos-v1,device=cpu."),
]
Reply = Annotated[
    str | None, typer.Option("--reply", help="The column of the replies; for sample logs, none.")
]
Prompt = Annotated[str | None, typer.Option("--prompt", help="The column of the prompts, if there is one.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the draw.")]


def _settings(by_args: str) -> dict[str, Any]:
    if not by_args:
        return {}
    from lm_eval.utils import simple_parse_args_string

    return dict(simple_parse_args_string(by_args))


@app.command()
def rescore(
    files: Annotated[
        list[Path], typer.Argument(help="lm-eval's samples_*.jsonl, or JSONL or CSV; also .gz.")
    ],
    by: By = "rules",
    by_args: ByArgs = "",
    reply: Reply = None,
    prompt: Prompt = None,
    column: Annotated[
        str | None, typer.Option("--column", help="What to call the new labels. Default: rescored_<by>.")
    ] = None,
    output_path: Annotated[
        Path | None,
        typer.Option("--output_path", "-o", help="The folder to write to. Default: the files' own."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start anew where there is output.")] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes, for the rules.")] = 2,
) -> None:
    """Label saved replies again, keep the old labels beside the new, and say what changed.

    Writes rescored_<by>_<name> per file. Stopped or killed, it goes on when called again.
    """
    from overbench_tasks.logs import ReplyColumns
    from overbench_tasks.review.rescore import rescore as rescore_file

    settings, columns = _settings(by_args), ReplyColumns(reply, prompt)
    for file in files:
        with _bar(file) as progress:
            try:
                done = rescore_file(
                    file,
                    by,
                    settings,
                    columns=columns,
                    column=column,
                    output_path=output_path,
                    overwrite=overwrite,
                    workers=workers,
                    progress=progress,
                )
            except KeyboardInterrupt:
                typer.echo("Stopped. The same command goes on from here.", err=True)
                raise typer.Exit(130) from None
        typer.echo(f"{file} -> {done.file}")
        for name, tally in sorted(done.report.items()):
            for line in ([f"  filter {name}"] if name else []) + tally.lines(done.labeller):
                typer.echo(line)


@contextmanager
def _bar(file: Path) -> Iterator[Callable[[int, int], None]]:
    from tqdm import tqdm

    with tqdm(desc=file.name, unit="B", unit_scale=True, disable=None) as bar:

        def progress(position: int, size: int) -> None:
            bar.total = size
            bar.update(position - bar.n)

        yield progress


@app.command()
def agreement(
    file: Annotated[Path, typer.Argument(help="CSV, JSONL or Parquet with people's labels.")],
    gold: Annotated[str, typer.Option("--gold", help="The column of people's labels.")] = "human_label",
    reply: Annotated[str, typer.Option("--reply", help="The column of the replies.")] = "reply",
    prompt: Prompt = None,
    by: By = "rules",
    by_args: ByArgs = "",
    limit: Annotated[int, typer.Option("--limit", "-L", min=0, help="How many disagreements to show.")] = 10,
    disagreements: Annotated[
        Path | None, typer.Option("--disagreements", help="Write all disagreements to this CSV.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="A sample log of the same model: report its error-corrected rate too."),
    ] = None,
) -> None:
    """Measure a labeller against people's labels; with --run, correct a run's rate for its errors."""
    from overbench_tasks.labellers import by_name
    from overbench_tasks.logs import ReplyColumns
    from overbench_tasks.review.agreement import disagreements_file, read_labelled, report_lines
    from overbench_tasks.review.correction import run_lines

    with by_name(by, _settings(by_args)) as labeller, disagreements_file(disagreements) as note:
        reading = read_labelled(
            file,
            labeller.label,
            gold=gold,
            columns=ReplyColumns(reply, prompt),
            keep=limit,
            on_disagreement=note,
        )
        for line in report_lines(reading, labeller.name):
            typer.echo(line)
        if run is not None:
            for line in run_lines(reading.table, run, labeller):
                typer.echo(line)


@app.command()
def annotate(
    file: Annotated[Path, typer.Argument(help="lm-eval's samples_*.jsonl, or JSONL, CSV or Parquet.")],
    output_path: Annotated[
        Path, typer.Option("--output_path", "-o", help="The sheet to write or to go on with.")
    ] = Path("labels.csv"),
    limit: Annotated[int, typer.Option("--limit", "-L", min=1, help="How many replies to draw.")] = 200,
    seed: Seed = 0,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Ask here, one reply after the other.")
    ] = False,
    show_labels: Annotated[
        bool, typer.Option("--show_labels", help="Show the automatic labels; they lead whoever sees them.")
    ] = False,
    by: By = "rules",
    by_args: ByArgs = "",
    reply: Reply = None,
    prompt: Prompt = None,
) -> None:
    """Draw replies of a run for a person to label: a CSV sheet, filled in elsewhere or right here.

    An existing sheet is gone on with, not drawn again.
    """
    from overbench_tasks.labellers import by_name
    from overbench_tasks.logs import ReplyColumns
    from overbench_tasks.review import annotate as sheets

    if not output_path.exists():
        with by_name(by, _settings(by_args)) as labeller:
            drawn = sheets.make_sheet(
                file,
                output_path,
                labeller,
                columns=ReplyColumns(reply, prompt),
                n=limit,
                seed=seed,
                blind=not show_labels,
            )
        typer.echo(f"{output_path}: {drawn} replies. Labels: {', '.join(sheets.ANSWERS.values())}.")
    elif not interactive:
        typer.echo(
            f"{output_path} is there already. Go on with --interactive, or name another file.", err=True
        )
        raise typer.Exit(1)
    if interactive:
        typer.echo(f"{sheets.ask(output_path)} labelled. The same command goes on from here.")
    typer.echo(f"Then: overbench agreement {output_path} --run {file}")


for commands in (refresh_commands, release_commands, report_commands):
    commands.register(app)

if __name__ == "__main__":
    main()
