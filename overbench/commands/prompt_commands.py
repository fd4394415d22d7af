"""The commands around prompts alone: ``diversity`` and ``defence``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from overbench.commands.options import Given, offers, validated
from overbench.diversity.diversity import DiversitySettings


@offers(
    "given",
    DiversitySettings,
    {
        "--sample": "sample",
        "--seed": "seed",
        "--encoder": "encoder",
        "--bert_score_model": "bert_score_model",
    },
)
def diversity(
    *,
    files: Annotated[
        list[str],
        typer.Argument(help="Prompt files (JSONL, CSV, Parquet) or releases, also as NAME=FILE."),
    ],
    given: Given,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON instead of a table.")] = False,
) -> None:
    """How varied sets of prompts are, side by side: Self-BLEU, distinct-n, neighbours, openings, lengths."""
    from overbench.diversity.diversity import describe, read_sets

    settings = validated(DiversitySettings, given)
    report = describe(read_sets(files), settings)
    if as_json:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False, indent=2))
        return
    for line in report.lines():
        typer.echo(line)


def defence(
    name: Annotated[str | None, typer.Argument(help="Print this one's text. Without it: list them.")] = None,
) -> None:
    """Print a published defence for lm_eval --system_instruction "$(overbench defence NAME)", or list all."""
    from overbench_tasks.defences.defences import defences, find_defence

    if name is not None:
        typer.echo(find_defence(name).text)
        return
    for one in defences().values():
        source = " ".join(filter(None, (one.source, one.url)))
        typer.echo(f"{one.name:20} {one.idea}\n{'':20} {source}")
        if one.departs:
            typer.echo(f"{'':20} {one.departs}")
        if one.orders_refusal:
            typer.echo(f"{'':20} tells to decline whole subjects: what follows it is no over-refusal")
    typer.echo("All in our own words (Apache-2.0); none of the sources' texts is taken over.")
