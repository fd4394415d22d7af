"""The ``overbench`` command: what it is called with, and where its commands are."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import requires
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from overbench_tasks import __version__

COMMANDS: Final = {
    **dict.fromkeys(("tasks-path", "doctor", "models", "quickstart"), "start_commands"),
    **dict.fromkeys(("rescore", "agreement", "annotate"), "review_commands"),
    **dict.fromkeys(
        ("refresh", "label", "train", "attribute", "generate", "verify", "status"), "refresh_commands"
    ),
    "rewrite": "rewrite_commands",
    **dict.fromkeys(("aggregate", "diff", "push", "report"), "release_commands"),
    **dict.fromkeys(("diversity", "defence"), "prompt_commands"),
    "subset": "subset_commands",
    "campaign": "campaign_commands",
    "compare": "compare_commands",
    "explain": "explain_commands",
}
"""Every command, as ``--help`` lists them: a function in one of the modules of :mod:`overbench.commands`."""


def with_underscores(word: str) -> str:
    """lm-eval's spelling of an option's or a command's name, which stands for the one with hyphens, too."""
    return word.replace("-", "_")


class Commands(TyperGroup):
    """Imports the module of a command when the command is named, since its options are made of settings."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        function = with_underscores(cmd_name)
        name = next((name for name in COMMANDS if with_underscores(name) == function), None)
        if name is None:
            return None
        module = import_module(f"overbench.commands.{COMMANDS[name]}")
        loaded = typer.Typer(add_completion=False)
        loaded.command(name)(getattr(module, function))
        return typer.main.get_command(loaded)


app = typer.Typer(
    cls=Commands,
    help="OVERBENCH: does this model refuse harmless prompts, and which words set it off?",
    no_args_is_help=True,
    add_completion=False,
    # Of all commands: each option is declared with underscores and taken with hyphens as well.
    context_settings={"token_normalize_func": with_underscores},
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point: errors that a user can mend end with their message, not with a traceback."""
    from overbench_tasks.errors import OverbenchError

    try:
        app()
    except OverbenchError as error:
        _end(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        if error.name is None or (extra := _extra_with(error.name.partition(".")[0])) is None:
            raise
        _end(f"This needs {error.name}, which is not installed: pip install 'overbench[{extra}]'.")


def _end(message: str, exit_code: int = 1) -> NoReturn:
    typer.secho(f"Error: {message}", fg="red", err=True)
    raise SystemExit(exit_code) from None


def _extra_with(module: str) -> str | None:
    """The first extra of this package that brings a module; None: none does."""
    name = {"sklearn": "scikit-learn"}.get(module, module)
    for one in requires("overbench") or ():
        requirement, _, extra = one.partition("extra == ")
        if extra and re.match(rf"{re.escape(name)}\b(?!-)", requirement):
            return extra.strip("'\"")
    return None


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"overbench {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


if __name__ == "__main__":
    main()
