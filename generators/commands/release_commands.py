"""The commands around releases: ``aggregate``, ``diff`` and ``push``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def aggregate(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Refresh runs, prompt files (JSONL, CSV, Parquet), earlier releases."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the release.")],
    responses: Annotated[
        list[Path] | None,
        typer.Option("--responses", help="lm-eval's output folder, with sample logs; may be repeated."),
    ] = None,
    min_rejections: Annotated[
        int, typer.Option("--min_rejections", min=1, help="overbench_hard: refused by so many targets.")
    ] = 5,
    min_checkpoints: Annotated[
        int, typer.Option("--min_checkpoints", min=1, help="... and by so many different checkpoints.")
    ] = 1,
    prompts: Annotated[
        str,
        typer.Option(
            "--prompts",
            help="Of a refresh run: accepted (passed its gates) or verified (refused by its target too).",
        ),
    ] = "accepted",
    alias: Annotated[
        list[str] | None,
        typer.Option("--alias", help="'LONG NAME=short name' or '...=short@checkpoint'; may be repeated."),
    ] = None,
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Label all replies anew, by today's rules.")
    ] = False,
    refused_only: Annotated[
        bool,
        typer.Option(
            "--refused_only", help="Leave out what all targets (with any reply) answered and none refused."
        ),
    ] = False,
    near_duplicates: Annotated[
        float,
        typer.Option("--near_duplicates", help="Similarity from which one of two prompts goes; (0, 1]."),
    ] = 0.8,
    name: Annotated[
        str | None, typer.Option("--name", help="Of the release. Default: that of its folder.")
    ] = None,
    release_version: Annotated[str, typer.Option("--release_version", help="Of the release.")] = "1.0",
    license_id: Annotated[
        str | None,
        typer.Option(
            "--license", help="Of the release, by the hub's id, such as cc-by-4.0. Default: none said."
        ),
    ] = None,
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
    memory_limit: Annotated[
        str, typer.Option("--memory_limit", help="Of the engine; more is spilled.")
    ] = "2GB",
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", min=1, help="Of the engine, and processes for --relabel. Default: all cores."
        ),
    ] = None,
) -> None:
    """Join runs and lm-eval logs of many models into a release: OVERBENCH, OVERBENCH-HARD, the matrix."""
    from pydantic import ValidationError

    from generators.release.aggregate import AggregateSettings, EngineSettings
    from generators.release.aggregate import aggregate as make_release

    try:
        settings = AggregateSettings.model_validate(
            {
                "name": name,
                "version": release_version,
                "license": license_id,
                "prompts": prompts,
                "min_rejections": min_rejections,
                "min_checkpoints": min_checkpoints,
                "refused_only": refused_only,
                "near_duplicates": near_duplicates,
                "about": None if about is None else _text_of(about),
                "aliases": tuple(alias or ()),
                "relabel": relabel,
            }
        )
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise typer.BadParameter(
            f"{problem['msg']}, got {problem['input']!r}", param_hint=f"--{problem['loc'][0]}"
        ) from None
    judge = None
    if category_judge is not None:
        from generators.categories.category_judge import read_settings

        judge = read_settings(category_judge)
    make_release(
        runs,
        responses or [],
        out,
        settings,
        engine=EngineSettings(memory_limit=memory_limit, threads=threads),
        category_judge=judge,
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
    from generators.release.diff import diff_releases

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
    from generators.release.push import push_release

    typer.echo(push_release(release, repo_id, private=private))


def register(app: typer.Typer) -> None:
    """Add the commands to ``overbench``."""
    for command in (aggregate, diff, push):
        app.command()(command)
