"""The commands around releases: ``aggregate``, ``diff``, ``push`` and ``report``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from overbench.commands.options import Given, offers, validated
from overbench.release.release_settings import AggregateSettings, EngineSettings
from overbench_tasks.text import number_of

Outcomes = Annotated[
    list[Path] | None,
    typer.Option(
        "--outcomes",
        help="A table of outcomes from elsewhere (JSONL, CSV, Parquet): prompt, model, outcome or label "
        "(compliance, partial, deflection, refusal, empty), and, if there are any, prompt_label (safe, "
        "unsafe), category, reply. May be repeated.",
    ),
]
OutcomeColumns = Annotated[
    str | None,
    typer.Option(
        "--outcome_columns",
        help="Where the tables have other names: prompt=question,model=system.",
    ),
]


@offers(
    "given",
    AggregateSettings,
    {
        "--min_rejections": "min_rejections",
        "--min_checkpoints": "min_checkpoints",
        "--hard_targets": "hard_targets",
        "--prompts": "prompts",
        "--alias": "aliases",
        "--relabel": "relabel",
        "--refused_only": "refused_only",
        "--near_duplicates": "near_duplicates",
        "--name": "name",
        "--release_version": "version",
        "--license": "license",
    },
)
@offers("engine", EngineSettings, {"--memory_limit": "memory_limit", "--threads": "threads"})
def aggregate(
    *,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Refresh runs, prompt files (JSONL, CSV, Parquet), earlier releases."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the release.")],
    responses: Annotated[
        list[Path] | None,
        typer.Option("--responses", help="lm-eval's output folder, with sample logs; may be repeated."),
    ] = None,
    outcomes: Outcomes = None,
    outcome_columns: OutcomeColumns = None,
    given: Given,
    about: Annotated[
        Path | None, typer.Option("--about", help="A Markdown file for the card: how the prompts were made.")
    ] = None,
    category_judge: Annotated[
        str | None,
        typer.Option(
            "--category_judge",
            help="A language model that files prompts without a category: model=NAME,base_url=URL; its key "
            "comes from OPENAI_API_KEY. Default: keywords.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a release that is there.")] = False,
    engine: Given,
) -> None:
    """Join runs and lm-eval logs of many models into a release: OVERBENCH, OVERBENCH-HARD, the matrix."""
    from generators.categories.category_judge import read_settings
    from overbench.release.aggregate import aggregate
    from overbench_tasks.outcomes.outcome_tables import find_outcomes

    if about is not None:
        given["about"] = _text_of(about)
    aggregate(
        runs or [],
        responses or [],
        out,
        validated(AggregateSettings, given),
        engine=validated(EngineSettings, engine),
        category_judge=None if category_judge is None else read_settings(category_judge),
        outcomes=find_outcomes(outcomes, outcome_columns) if outcomes else (),
        overwrite=overwrite,
        say=typer.echo,
    )


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(
            f"Expected a Markdown file in UTF-8, got {file}: {error}", param_hint="--about"
        ) from error


def diff(
    old: Annotated[Path, typer.Argument(help="A release.")],
    new: Annotated[Path, typer.Argument(help="A later one.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON instead of lines.")] = False,
) -> None:
    """What changed between two releases: prompts, the hard set, the matrix, the rates."""
    from overbench.release.diff import diff_releases

    found = diff_releases(old, new)
    if as_json:
        typer.echo(json.dumps(found.to_json(), ensure_ascii=False, indent=2))
        return
    for line in found.lines():
        typer.echo(line)


def push(
    release: Annotated[Path, typer.Argument(help="A release.")],
    repo_id: Annotated[str, typer.Argument(help="The dataset on the hub, as ORG/NAME.")],
    private: Annotated[
        bool, typer.Option("--private", help="A new dataset is seen by its owners only.")
    ] = False,
) -> None:
    """Upload a release to the Hugging Face hub as a dataset. The token comes from the environment."""
    from overbench.release.push import push_release

    typer.echo(push_release(release, repo_id, private=private))


def report(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="lm-eval's output folders (run with --log_samples), refresh runs, at most one release."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    alias: Annotated[
        list[str] | None, typer.Option("--alias", help="'LONG NAME=short name' of a model; may be repeated.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            help="A sheet of overbench annotate with people's labels: intervals then carry the labeller's "
            "errors on it. Default: those on the nearest labelled set that comes with the package.",
        ),
    ] = None,
    families: Annotated[
        Path | None,
        typer.Option(
            "--families",
            help="A table (CSV, JSONL, Parquet) of pattern, family, size, released, line; its rows go before "
            "those of the package.",
        ),
    ] = None,
    outcomes: Outcomes = None,
    outcome_columns: OutcomeColumns = None,
    title: Annotated[str, typer.Option("--title", help="The heading.")] = "OVERBENCH report",
) -> None:
    """Make a page of rates, figures and the most refused prompts, with a Markdown summary beside it."""
    from overbench.report.write_report import make_report
    from overbench_tasks.outcomes.outcome_tables import find_outcomes

    tables = find_outcomes(outcomes, outcome_columns) if outcomes else ()
    files = make_report(
        paths or [],
        out,
        aliases=alias or (),
        people=labels,
        outcomes=tables,
        families=families,
        title=title,
    )
    pictures = number_of(len(files) - 2, "picture")
    typer.echo(f"{files[0]}: one file, for any browser; {files[1]} and {pictures} beside it.")
