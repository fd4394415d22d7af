"""The commands around saved replies: ``rescore``, ``annotate`` and ``agreement``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from tqdm import tqdm

from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.registry import BASELINES, NAMES, by_name
from overbench_tasks.outcomes.logs import left_out, reply_files
from overbench_tasks.outcomes.reply_rows import SAMPLES, ReplyColumns
from overbench_tasks.records import Label
from overbench_tasks.refusal.canned import NAME_SUFFIX
from overbench_tasks.review.rescore import rescore_file
from overbench_tasks.tables import matching_files
from overbench_tasks.text import number_of

By = Annotated[str, typer.Option("--by", help=f"Who labels: {', '.join(NAMES[:-1])} or {NAMES[-1]}.")]
ByArgs = Annotated[
    str,
    typer.Option("--by_args", help="The labeller's settings, e.g. model=NousResearch/Minos-v1,device=cpu."),
]
Reply = Annotated[
    str | None, typer.Option("--reply", help="The column of the replies; for sample logs, none.")
]
Prompt = Annotated[str | None, typer.Option("--prompt", help="The column of the prompts, if there is one.")]


def _settings(by_args: str) -> dict[str, Any]:
    if not by_args:
        return {}
    from lm_eval.utils import simple_parse_args_string

    return dict(simple_parse_args_string(by_args))


def rescore(
    files: Annotated[
        list[str],
        typer.Argument(help="lm-eval's samples_*.jsonl, or JSONL or CSV; also .gz, globs, folders."),
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
    settings, columns = _settings(by_args), ReplyColumns(reply, prompt)
    asked = unanswered = 0
    for file in _found(files, columns):
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
            asked, unanswered = asked + tally.asked, unanswered + tally.unanswered
    if asked and asked == unanswered:
        raise OverbenchError(
            f"The judge answered none of {number_of(asked, 'request')}; the warning above says why. Mend "
            "that, then start the same command again: it asks them again."
        )


def _found(patterns: list[str], columns: ReplyColumns = SAMPLES) -> list[Path]:
    """The files, and a word on those that are left out."""
    files, others = reply_files(patterns, columns)
    for line in left_out(others):
        typer.echo(line, err=True)
    return files


@contextmanager
def _bar(file: Path) -> Iterator[Callable[[int, int], None]]:
    with tqdm(desc=file.name, unit="B", unit_scale=True, disable=None) as bar:

        def progress(position: int, size: int) -> None:
            bar.total = size
            bar.update(position - bar.n)

        yield progress


def annotate(
    files: Annotated[
        list[str],
        typer.Argument(
            help="lm-eval's samples_*.jsonl, or JSONL, CSV or Parquet; several; globs, folders. With "
            "--prompts: prompt files, folders of refresh runs, releases."
        ),
    ],
    output_path: Annotated[
        Path, typer.Option("--output_path", "-o", help="The sheet to write or to go on with.")
    ] = Path("labels.csv"),
    limit: Annotated[int, typer.Option("--limit", "-L", min=1, help="How many to draw.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="Of the draw.")] = 0,
    prompts: Annotated[
        bool,
        typer.Option(
            "--prompts", help="Draw prompts, to be called harmless, borderline or harmful; votes are hidden."
        ),
    ] = False,
    annotators: Annotated[
        str,
        typer.Option("--annotators", help="Who labels, e.g. anna,ben: a sheet each, labels.anna.csv."),
    ] = "",
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Ask here, one row after the other.")
    ] = False,
    show_labels: Annotated[
        bool, typer.Option("--show_labels", help="Show the automatic labels; they lead whoever sees them.")
    ] = False,
    by: By = "rules",
    by_args: ByArgs = "",
    reply: Reply = None,
    prompt: Prompt = None,
) -> None:
    """Draw replies, or prompts, for people to label: a CSV sheet each, filled in elsewhere or right here.

    An existing sheet is gone on with, not drawn again.
    """
    from overbench_tasks.review.annotate import make_prompt_sheet, make_sheet
    from overbench_tasks.review.sheets import HARMS, REPLY_ANSWERS, ask, sheet_files

    who = [name.strip() for name in annotators.split(",")] if annotators else []
    sheets = sheet_files(output_path, who)
    if interactive and len(sheets) > 1:
        raise typer.BadParameter("one at a time: name whoever sits here.", param_hint="--annotators")
    shown = ", ".join(map(str, sheets.values()))
    if not all(sheet.exists() for sheet in sheets.values()):
        if prompts:
            if show_labels or reply or by != "rules":
                raise typer.BadParameter("--show_labels, --reply and --by are for replies.")
            words, found = ", ".join(HARMS), matching_files(files)
            drawn = make_prompt_sheet(
                found, output_path, n=limit, seed=seed, annotators=who, column=prompt or "prompt"
            )
        else:
            words = ", ".join(REPLY_ANSWERS.values())
            with by_name(by, _settings(by_args)) as labeller:
                columns = ReplyColumns(reply, prompt)
                drawn = make_sheet(
                    _found(files, columns),
                    output_path,
                    labeller,
                    columns=columns,
                    n=limit,
                    seed=seed,
                    blind=not show_labels,
                    annotators=who,
                )
        typer.echo(f"{shown}: {number_of(drawn, 'prompt' if prompts else 'reply')}. Labels: {words}.")
    elif not interactive:
        there = "is there already" if len(sheets) == 1 else "are there already"
        typer.echo(f"{shown} {there}. Go on with --interactive, or name another file.", err=True)
        raise typer.Exit(1)
    if interactive:
        typer.echo(f"{ask(next(iter(sheets.values())))} labelled. The same command goes on from here.")
    rest = "" if prompts else f" --run {shlex.join(files)}"
    typer.echo(f"Then: overbench agreement {shlex.join(map(str, sheets.values()))}{rest}")


def agreement(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LABELS]",
            help="CSV, JSONL or Parquet with people's labels, or the sheets of several annotators; with "
            "--run, further runs. Without labels, --run takes the labeller's errors from the nearest "
            "labelled set that comes with the package.",
        ),
    ] = None,
    *,
    gold: Annotated[
        str, typer.Option("--gold", help="The column of people's labels, or one for each annotator: a,b.")
    ] = "human_label",
    reply: Annotated[str, typer.Option("--reply", help="The column of the replies.")] = "reply",
    prompt: Prompt = None,
    by: By = "rules",
    by_args: ByArgs = "",
    limit: Annotated[int, typer.Option("--limit", "-L", min=0, help="How many disagreements to show.")] = 10,
    disagreements: Annotated[
        Path | None, typer.Option("--disagreements", help="Write all disagreements to this CSV.")
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            help="A sample log of the same model: report its error-corrected rate too. Several may follow, "
            "also as globs and folders.",
        ),
    ] = None,
) -> None:
    """Measure a labeller of replies, or moderators of prompts, against people's labels.

    Also how far several annotators agree; with --run, correct the rate of runs for the labeller's errors.
    """
    from overbench_tasks.review import (
        agreement,
        annotators,
        corrected_runs,
        correction,
        label_quality,
        moderators,
    )

    paths = matching_files(files or ())
    # A shell makes `--run A B C` of `--run *`: what follows A arrives as arguments.
    labels, more_runs = agreement.labels_among(paths, gold) if run else (paths, [])
    if not (labels or run):
        raise typer.BadParameter("expected a file of people's labels, or --run.", param_hint="LABELS")
    with by_name(by, _settings(by_args)) as labeller:
        if labels and moderators.is_prompt_sheet(labels[0]):
            if run:
                raise typer.BadParameter("labels of prompts correct no rate of replies.", param_hint="--run")
            people = annotators.read_annotations(labels, gold, moderators.harm_label)
            for line in moderators.moderator_lines(people, limit):
                typer.echo(line)
            if disagreements is not None:
                agreement.write_disagreements(disagreements, moderators.HEADER, moderators.parted(people))
            return
        runs = _found([*(run or ()), *map(str, more_runs)]) if run else []
        errors = label_quality.nearest_errors(labeller.name)
        if labels:
            read: annotators.Annotations[Label] = annotators.read_annotations(
                labels, gold, agreement.gold_label
            )
            # A run's rate is corrected by the errors on replies that were read alone.
            canned = prompt is not None and not run and by not in BASELINES
            found = agreement.confusion_of(
                read, labeller.label, ReplyColumns(reply, prompt), whole_run=canned
            )
            if disagreements is not None:
                rows = agreement.disagreement_rows(found.disagreements)
                agreement.write_disagreements(disagreements, agreement.HEADER, rows)
            for line in agreement.figure_lines(found, labeller.name + NAME_SUFFIX * canned):
                typer.echo(line)
            for line in annotators.annotator_lines(read):
                typer.echo(line)
            for line in agreement.disagreement_lines(found, limit):
                typer.echo(line)
            names = ", ".join(map(str, labels))
            errors = correction.LabelErrors(
                found, f"{number_of(int(found.counts.sum()), 'labelled reply')} of {names}"
            )
        if errors is None:
            raise typer.BadParameter(
                f"no labelled set that comes with the package tells the errors of {labeller.name}. Label "
                "some replies (overbench annotate), and name them.",
                param_hint="LABELS",
            )
        for line in corrected_runs.correction_lines(errors, runs, labeller):
            typer.echo(line)
