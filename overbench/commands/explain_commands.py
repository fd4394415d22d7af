"""The command ``explain``: which words of a prompt make this target refuse it?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from overbench.commands.options import Given, offers, validated
from overbench.explain.explain_settings import ExplainSettings
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.registry import LABELLERS
from overbench_tasks.text import number_of

SHOWN = 10
"""Explanations of a set in the terminal; the page has all of them."""


@offers(
    "given",
    ExplainSettings,
    {
        "--model": "target.model",
        "--model_args": "target.model_args",
        "--batch_size -b": "target.batch_size",
        "--device": "target.device",
        "--system_instruction": "target.system_instruction",
        "--apply_chat_template": "target.apply_chat_template",
        "--max_gen_toks": "target.max_gen_toks",
        "--units": "units",
        "--by": "by",
        "--samples": "samples",
        "--temperature": "temperature",
        "--by_probability": "by_probability",
        "--budget_calls": "budget_calls",
    },
)
def explain(
    *,
    prompt: Annotated[str | None, typer.Argument(help="The prompt, in quotes.")] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run", help="Instead of a prompt: lm-eval's output folder or sample log; its refused prompts."
        ),
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", help="Instead of a prompt: a file of prompts.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-L", min=1, help="So many prompts of the run or file, drawn at random."),
    ] = None,
    given: Given,
    labeller: Annotated[
        str, typer.Option("--labeller", help=f"Who labels the replies: {', '.join(LABELLERS)}.")
    ] = "rules",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A folder for the records, the summary and a page."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the records, a line each.")] = False,
) -> None:
    """Which words of a prompt make this target refuse it? And which sentences of its system instruction?

    Takes words out until the refusal turns, on the target itself, and shows a minimal set of them. Stopped or
    killed, the same command goes on where it was.
    """
    from generators.targets.target import Target
    from overbench.explain import explain_run
    from overbench.explain.explain_output import explanation_lines, summary_lines

    if sum(one is not None for one in (prompt, run or None, prompts)) != 1:
        raise OverbenchError('Expected one of "PROMPT", --run LOGS and --prompts FILE.')
    settings = validated(ExplainSettings, {"target": {}, **given, "labeller": {"by": labeller}})
    unsafe: Mapping[str, bool] = {}
    if prompt is not None:
        asked = explain_run.one_prompt(prompt)
    elif prompts is not None:
        asked = explain_run.prompts_of_file(prompts)
    else:
        of_run = explain_run.refused_prompts(run or [])
        asked, unsafe = list(of_run.refused), of_run.unsafe
        for note in of_run.notes(settings.target.system_instruction):
            typer.echo(note, err=True)
    if len(few := explain_run.drawn(asked, limit)) < len(asked):
        typer.echo(f"{len(few):,} of {len(asked):,} prompts, drawn at random.", err=True)
        asked = few
    target = Target(settings.target, settings.generation)
    found = []
    try:
        for one in explain_run.explain(asked, settings, target, out, unsafe):
            found.append(one)
            if json_output:
                typer.echo(json.dumps(one.to_json()))
            elif len(found) <= SHOWN:
                typer.echo("\n".join(explanation_lines(one, settings.target.system_instruction)))
    except KeyboardInterrupt:
        typer.echo("Stopped; nothing is lost. To go on, start the same command again.", err=True)
        raise typer.Exit(130) from None
    if len(found) > 1 and not json_output:
        typer.echo("\n".join(summary_lines(found, unsafe)))
    if out is not None and not json_output:
        typer.echo(f"{out / 'explain.html'}: {number_of(len(found), 'prompt')}")
    if found and all(one.reason == "request_failed" for one in found):
        raise OverbenchError(
            "Every request to the target failed; the warning above says why. Mend that, then start the same "
            "command again: it asks them again."
        )
