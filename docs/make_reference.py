"""Write the reference pages of the documentation from the code.

    python docs/make_reference.py            # writes docs/reference/*.md
    python docs/make_reference.py --check    # exit code 1 where a page differs from the code

Tasks come from the task files, settings from the pydantic models, commands from typer, verdict fields from
docstrings. Each page is a function that returns its Markdown.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import click
import typer
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

DOCS: Final = Path(__file__).parent
REPOSITORY: Final = DOCS.parent
TASK_FILES: Final = REPOSITORY / "task_configs"

SETTINGS: Final = {
    "refresh": "generators.refresh.refresh_settings.RefreshSettings",
    "rewrite": "generators.rewrite.rewrite_settings.RewriteSettings",
    "campaign": "overbench.campaign.campaign_settings.CampaignSettings",
    "aggregate": "overbench.release.release_settings.AggregateSettings",
    "compare": "overbench.compare.compare_settings.CompareSettings",
    "explain": "overbench.explain.explain_settings.ExplainSettings",
    "diversity": "overbench.diversity.diversity.DiversitySettings",
}
"""Command -> the model that checks its settings."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    return lines + [f"| {' | '.join(map(cell, row))} |" for row in rows]


def cell(text: str) -> str:
    """``text`` as it may stand in a cell: on one line, its bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def page(title: str, introduction: str, lines: Sequence[str]) -> str:
    notice = "<!-- Made by docs/make_reference.py. Change the code, then run it. -->"
    return "\n".join([f"# {title}", "", notice, "", introduction, "", *lines]).rstrip() + "\n"


# Tasks


class _TaskLoader(yaml.SafeLoader):
    """Reads lm-eval's task files without importing what ``!function`` names."""


_TaskLoader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))


def read_task(file: Path) -> dict[str, Any]:
    """A task file, with the files that it includes below it."""
    content: dict[str, Any] = yaml.load(file.read_text("utf-8"), _TaskLoader)  # noqa: S506 - a SafeLoader
    included = content.pop("include", None)
    return {**(read_task(TASK_FILES / included) if included else {}), **content}


def tasks() -> list[dict[str, Any]]:
    return [read_task(file) for file in sorted(TASK_FILES.glob("*.yaml"))]


def tasks_page() -> str:
    rows = []
    for task in tasks():
        metadata = task.get("metadata", {})
        tag = task.get("tag", "")
        rows.append(
            (
                code(task["task"]),
                str(metadata.get("version", "")),
                code(tag) if isinstance(tag, str) else ", ".join(map(code, tag)),
                str(task["generation_kwargs"]["max_gen_toks"]),
                metadata.get("description", ""),
            )
        )
    introduction = (
        "Every task asks its prompts without examples, greedily, and without a stop string. *Tokens* is the most\n"
        "that a reply may have; `--gen_kwargs max_gen_toks=N` changes it."
    )
    return page("Tasks", introduction, table(("task", "version", "tag", "tokens", "prompts"), rows))


# Fields of records, from docstrings


def attributes(record: type) -> list[tuple[str, str]]:
    """(name, description) of each attribute in the docstring of ``record``."""
    text = inspect.getdoc(record) or ""
    _, _, section = text.partition("Attributes:\n")
    fields: list[tuple[str, str]] = []
    for line in section.splitlines():
        if not line.strip():
            continue
        if entry := re.match(r" {4}([\w, ]+): +(.*)", line):
            fields.append((entry[1], entry[2]))
        elif fields and line.startswith(" " * 8):
            name, description = fields[-1]
            fields[-1] = name, f"{description} {line.strip()}"
        else:
            break
    return [(name, plain(description)) for name, description in fields]


def plain(text: str) -> str:
    """A docstring's text without Sphinx roles: ``:data:`X``` and double backquotes become `X`."""
    text = re.sub(r":\w+:`~?([^`]*)`", lambda role: code(role[1].rpartition(".")[2]), text)
    return text.replace("``", "`")


def verdicts_page() -> str:
    from overbench_tasks.records import LABELS, Verdict

    introduction = (
        "A verdict says what one reply did. With `--log_samples`, lm-eval keeps a verdict for each reply, as JSON in\n"
        f"`filtered_resps`. The labels are {', '.join(map(code, LABELS))}."
    )
    fields = [(code(name), description) for name, description in attributes(Verdict)]
    return page("Verdict fields", introduction, table(("field", "meaning"), fields))


# Settings


def model_of(annotation: Any) -> type[BaseModel] | None:
    """The settings section that an annotation holds, also inside a tuple, list, mapping or union."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for argument in get_args(annotation) if (model := model_of(argument))), None)


def type_name(annotation: Any) -> str:
    """A type as a user of YAML would say it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(type_name, arguments)))
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin in (tuple, list, set, frozenset) or (inspect.isclass(origin) and issubclass(origin, Sequence)):
        inner = [argument for argument in arguments if argument is not Ellipsis]
        return f"list of {' or '.join(dict.fromkeys(map(type_name, inner)))}"
    if origin is dict or (inspect.isclass(origin) and issubclass(origin, Mapping)):
        return "mapping"
    if origin is not None and arguments:
        return type_name(arguments[0])  # Annotated
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return "section"
    names = {"str": "text", "bool": "true or false", "int": "whole number", "float": "number", "Path": "path"}
    name = getattr(annotation, "__name__", str(annotation))
    return names.get(name, name)


def default_of(default: Any) -> str:
    if default is PydanticUndefined:
        return "required"
    if default is None:
        return ""
    text = str(list(default) if isinstance(default, tuple) else default)
    return code(text) if len(text) <= 40 else "see the code"


def setting_rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(name, type, default, meaning) of each setting, sections spelled out as ``section.name``."""
    for name, field in model.model_fields.items():
        section = model_of(field.annotation)
        several = get_origin(field.annotation) in (tuple, list, dict)
        if section is not None:
            yield from setting_rows(section, f"{prefix}{name}{'[]' if several else ''}.")
            continue
        default = field.get_default(call_default_factory=not field.default_factory_takes_validated_data)
        yield (
            code(f"{prefix}{name}"),
            type_name(field.annotation),
            default_of(default),
            plain(field.description or ""),
        )


def settings_page() -> str:
    lines: list[str] = []
    for command, path in SETTINGS.items():
        module, _, name = path.rpartition(".")
        model = getattr(importlib.import_module(module), name)
        lines += [f"## {command}", "", *table(("setting", "type", "default", "meaning"), [*setting_rows(model)]), ""]
    introduction = (
        "A settings file is YAML with one section for each stage. A flag, or `--set section.name=value`, overrides the\n"
        "file. `[]` marks a list of sections. Unknown names and values out of range are reported before the run starts."
    )
    return page("Settings", introduction, lines)


# Commands


def commands() -> Iterator[tuple[str, click.Command]]:
    """(name, command) of every command of ``overbench``, in the order of its help."""
    from overbench.cli import app

    group: Any = typer.main.get_command(app)
    context = click.Context(group, info_name="overbench")
    for name in group.list_commands(context):
        yield name, group.get_command(context, name)


def usage(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"overbench {name}")
    return command.get_usage(context).removeprefix("Usage: ")


def parameter_row(parameter: Any) -> tuple[str, str]:
    help_text = getattr(parameter, "help", None) or ""
    if parameter.param_type_name == "option":
        return ", ".join(map(code, (*parameter.opts, *parameter.secondary_opts))), help_text
    return code(parameter.name.upper()), help_text


def command_lines(name: str, command: click.Command) -> Iterator[str]:
    yield from (f"## overbench {name}", "", inspect.cleandoc(command.help or "").replace("\b\n", ""), "")
    yield from ("```", usage(name, command), "```", "")
    subcommands = getattr(command, "commands", None)
    if subcommands:
        for subname, subcommand in subcommands.items():
            yield from command_lines(f"{name} {subname}", subcommand)
        return
    rows = [parameter_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        yield from (*table(("argument or option", "meaning"), rows), "")


def commands_page() -> str:
    lines = [line for name, command in commands() for line in command_lines(name, command)]
    introduction = (
        "Options have lm-eval's underscores and are taken with hyphens, too. `overbench COMMAND --help` prints the same."
    )
    return page("Commands", introduction, lines)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "tasks.md": tasks_page,
    "verdicts.md": verdicts_page,
    "settings.md": settings_page,
    "commands.md": commands_page,
}
"""File below docs/reference -> what makes it."""


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        file, text = DOCS / "reference" / name, make()
        if not file.is_file() or file.read_text("utf-8") != text:
            stale.append(name)
            if not check:
                file.write_text(text, "utf-8")
    for name in stale:
        print(f"{name}: {'differs from the code' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
