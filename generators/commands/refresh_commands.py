"""The commands of the refresh loop: ``refresh``, its stages one by one, and ``status``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Where = Annotated[
    Path | None,
    typer.Argument(
        help="A YAML file of settings, or a run directory to go on with. Without it: flags alone."
    ),
]
RunDirectory = Annotated[Path, typer.Argument(help="A run directory.")]


class Bars:
    """Progress in the terminal; one bar at a time."""

    def __init__(self) -> None:
        self._bar: Any = None

    def bar(self, name: str, total: int | None) -> Callable[[int], None]:
        from tqdm import tqdm

        self.close()
        self._bar = tqdm(total=total, desc=name, disable=None)
        return self._bar.update  # type: ignore[no-any-return]

    def say(self, line: str) -> None:
        self.close()
        typer.echo(line)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def refresh(
    where: Where = None,
    run_dir: Annotated[
        Path | None,
        typer.Option("--run_dir", "-o", help="The run directory. Default: runs/NAME OF THE SETTINGS FILE."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="lm-eval's model type. Default: hf.")] = None,
    model_args: Annotated[
        str | None, typer.Option("--model_args", help="lm-eval's model arguments: the target.")
    ] = None,
    batch_size: Annotated[str | None, typer.Option("--batch_size", "-b", help="As in lm_eval.")] = None,
    device: Annotated[str | None, typer.Option("--device", help="As in lm_eval.")] = None,
    system_instruction: Annotated[
        str | None, typer.Option("--system_instruction", help="As in lm_eval.")
    ] = None,
    seeds: Annotated[
        list[str] | None,
        typer.Option("--seeds", help="A prompt file, or hh-rlhf or toxigen from the hub; may be repeated."),
    ] = None,
    detector: Annotated[
        str | None, typer.Option("--detector", help="The encoder to train, by name or path.")
    ] = None,
    generator: Annotated[
        str | None, typer.Option("--generator", help="Who writes: openai, or batch:DIR for request files.")
    ] = None,
    generator_model: Annotated[
        str | None, typer.Option("--generator_model", help="The adversary's model. Default: gpt-4o-mini.")
    ] = None,
    generator_base_url: Annotated[
        str | None,
        typer.Option(
            "--generator_base_url", help="The adversary's endpoint. Default: $OPENAI_BASE_URL or OpenAI."
        ),
    ] = None,
    moderation: Annotated[
        list[str] | None,
        typer.Option(
            "--moderation", help="A judge's model name, may be repeated; or none, which is recorded."
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", help="Feedback rounds.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Requests to the adversary per round.")] = None,
    preset: Annotated[
        str, typer.Option("--preset", help="default, or paper: the paper's settings.")
    ] = "default",
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting, as section.name=value; may be repeated."),
    ] = None,
    budget_calls: Annotated[
        int | None,
        typer.Option("--budget-calls", min=1, help="End after this many calls of adversary and judges."),
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option("--budget-tokens", min=1, help="End after about this many of their tokens.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be done, how many calls, and the cost; then stop."),
    ] = False,
    until: Annotated[
        str | None, typer.Option("--until", help="Stop after this stage: label, train, attribute, ...")
    ] = None,
) -> None:
    """Make new, harmless prompts that one checkpoint refuses; then: lm_eval --tasks overbench_model.

    Stopped or killed, the same command goes on where it was; so does: overbench refresh RUN_DIRECTORY
    """
    flags: dict[str, Any] = {
        "target": {
            "model": model,
            "model_args": model_args,
            "batch_size": batch_size,
            "device": device,
            "system_instruction": system_instruction,
        },
        "seeds": {"sources": seeds or None},
        "detector": {"model": detector},
        "adversary": {"generator": generator, "model": generator_model, "base_url": generator_base_url},
        "moderation": _moderation(moderation),
        "rounds": {"rounds": rounds, "jobs": jobs},
        "budget": {"calls": budget_calls, "tokens": budget_tokens},
    }
    from generators.refresh.plan import plan_lines
    from generators.refresh.refresh_settings import load
    from generators.refresh.run import settings_of
    from overbench_tasks.errors import OverbenchError

    if where is not None and where.is_dir():
        folder, settings = where, settings_of(where)
        if budget_calls or budget_tokens:
            settings = settings.model_copy(update={"budget": settings.budget.model_validate(flags["budget"])})
    else:
        settings = load(where, flags, assignments or (), preset)
        if run_dir is None and where is None:
            raise OverbenchError("Expected --run_dir DIRECTORY, or a settings file to name the run after.")
        folder = run_dir or Path("runs") / where.stem  # type: ignore[union-attr]
    if dry_run:
        for line in plan_lines(settings):
            typer.echo(line)
        return
    _work(folder, settings, until)


def _moderation(names: list[str] | None) -> dict[str, Any] | None:
    if not names:
        return None
    if names == ["none"]:
        return {"none": True}
    return {"judges": [{"model": name} for name in names]}


def _work(folder: Path, settings: Any, until: str | None) -> None:
    from generators.refresh.loop import refresh as run_loop
    from generators.refresh.run import Run
    from generators.refresh.store import Store

    bars = Bars()
    with Store(folder) as store:
        run = Run(settings, store, bars)
        try:
            run.check(until)
            exported = run_loop(run, until)
        except KeyboardInterrupt:
            bars.close()
            typer.echo(f"Stopped; nothing is lost. To go on: overbench refresh {folder}", err=True)
            raise typer.Exit(130) from None
        finally:
            bars.close()
    typer.echo(
        f"{folder}: {exported.accepted:,} prompts passed all gates, {exported.verified:,} of them are "
        f"refused by the target. In {exported.folder}"
    )
    if exported.verified:
        typer.echo(f"Now: lm_eval --tasks overbench_model {evaluation_flags(settings, exported.folder)}")


def evaluation_flags(settings: Any, folder: Path) -> str:
    """lm_eval's flags for the target of a refresh whose set is in ``folder``, quoted for a shell."""
    import shlex

    target = settings.target
    words = ["--model", target.model, "--model_args", target.model_args]
    words += ["--apply_chat_template"] if target.apply_chat_template else []
    if target.system_instruction:
        # A task does not see it, and so cannot find this target's set by itself.
        words += ["--system_instruction", target.system_instruction]
        words += ["--metadata", json.dumps({"overbench_target": folder.name})]
    return shlex.join(words)


def _stage(name: str, does: str) -> Callable[[Path], None]:
    def command(run: RunDirectory) -> None:
        from generators.refresh.run import settings_of

        _work(run, settings_of(run), name)

    command.__doc__ = f"{does} Goes on with a run directory up to this stage."
    return command


def attribute(
    run: RunDirectory,
    show: Annotated[
        int, typer.Option("--show", min=0, help="Print so many prompts with their words shaded.")
    ] = 0,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write all attributed prompts, shaded, to this page.")
    ] = None,
    adjusted: Annotated[
        bool, typer.Option("--adjusted", help="Shade by frequency-adjusted scores, not by raw ones.")
    ] = False,
) -> None:
    """Attribute the detector's refusals to words. Goes on with a run directory up to this stage.

    With --show or --html it shows what is attributed already, without running anything.
    """
    from generators.attribution.view import ansi
    from generators.attribution.view import html as page
    from generators.refresh.run import settings_of
    from generators.refresh.status import attributed_prompts

    if not show and html is None:
        _work(run, settings_of(run), "attribute")
        return
    score: Any = "adjusted" if adjusted else "raw"
    prompts = attributed_prompts(run)
    for prompt, attribution in prompts[:show]:
        typer.echo(ansi(prompt, attribution, score=score) + "\n")
    if html is not None:
        html.write_text(page(prompts, score=score), encoding="utf-8")
        typer.echo(f"{html}: {len(prompts):,} prompts")


def status(run: RunDirectory) -> None:
    """Show a run's counts per stage and rejection reason, its detectors, its top features."""
    from generators.refresh.status import status_lines

    for line in status_lines(run):
        typer.echo(line)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(refresh)
    app.command()(attribute)
    app.command()(status)
    for name, does in (
        ("label", "Ask the target the seed prompts and label its replies."),
        ("train", "Train the next round's detector."),
        ("generate", "Have the adversary write, and pass what it writes through the gates."),
        ("verify", "Ask the target what passed the gates."),
    ):
        app.command(name)(_stage(name, does))
