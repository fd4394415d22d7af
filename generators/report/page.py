"""The report as one HTML file that fetches nothing, and in Markdown, without the prompts.

The page's Content-Security-Policy allows its own style and scripts, by their hashes, and pictures inside
the file; so even a prompt that got past the escaping could run nothing and send nothing.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from generators.report import figures
from generators.report.figures import DARK, LIGHT, NARROW, WIDE, Picture, Theme
from generators.report.sections.section import Cell, Report, ReportTable
from overbench_tasks import __version__
from overbench_tasks.text import escaped

HERE = Path(__file__).parent
_NARROW_SCREEN, _DARK = "(max-width: 880px)", "(prefers-color-scheme: dark)"


@dataclass(frozen=True)
class Image:
    """A picture inside the page, with the condition under which it is shown and its size in pixels."""

    uri: str
    width: int
    height: int
    media: str = ""


@dataclass(frozen=True)
class Images:
    """One picture for each screen: the first source whose condition holds, else the plain one."""

    sources: tuple[Image, ...]
    plain: Image


def html(report: Report) -> str:
    """The whole page."""
    import jinja2
    from markupsafe import Markup

    # StrictUndefined: a slip in the template is an error here and not a hole in the page.
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False, keep_trailing_newline=True
    )
    template = environment.from_string(_own("page.html.jinja"))
    style, script, widget = _own("page.css"), _own("page.js"), _own("vendor/dataTables.min.js")
    return template.render(
        report=report,
        pictures={picture.key: images(picture) for one in report.sections for picture in one.pictures},
        version=__version__,
        policy=policy(style, widget, script),
        style=Markup(style),  # noqa: S704 - our own files
        widget=Markup(widget),  # noqa: S704
        script=Markup(script),  # noqa: S704
    )


def policy(style: str, *scripts: str) -> str:
    """The Content-Security-Policy that allows exactly this style and these scripts."""
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src {allowed}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def images(picture: Picture) -> Images:
    """The picture for wide and narrow screens, light and dark."""
    return Images(
        (
            _image(picture, DARK, NARROW, f"{_DARK} and {_NARROW_SCREEN}"),
            _image(picture, LIGHT, NARROW, _NARROW_SCREEN),
            _image(picture, DARK, WIDE, _DARK),
        ),
        _image(picture, LIGHT, WIDE, ""),
    )


def _image(picture: Picture, theme: Theme, width: float, media: str) -> Image:
    drawn, across, high = figures.sized_svg(picture, theme, width)
    uri = "data:image/svg+xml;base64," + base64.b64encode(drawn).decode()
    return Image(uri, round(96 * across), round(96 * high), media)


def _own(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


MOST_ROWS = 40
"""Of a table; the page has all of them."""

_LEFT_OUT = frozenset({"prompts"})


def markdown(report: Report, page: str, folder: str) -> str:
    """The report in GitHub's Markdown.

    Args:
        page: the name of the HTML page, to point to.
        folder: where the pictures lie, relative to the Markdown file.
    """
    lines = [
        f"# {escaped(report.title)}",
        "",
        *(f"{escaped(line)}\n" for line in report.lead),
    ]
    lines += [f"All of it, prompts included: [{escaped(page)}](<{page}>)", ""]
    if report.notes:
        lines += [
            "Before you trust the numbers:",
            "",
            *(f"- {escaped(note)}" for note in report.notes),
            "",
        ]
    for section in report.sections:
        if section.key in _LEFT_OUT:
            continue
        lines += [
            f"## {escaped(section.title)}",
            "",
            *(f"{escaped(line)}\n" for line in section.paragraphs),
        ]
        for picture in section.pictures:
            lines += [f"![{escaped(picture.alt)}](<{folder}/{picture.key}.svg>)", ""]
        lines += [f"{escaped(line)}\n" for line in section.below]
        for table in section.tables:
            lines += [*_table(table), ""]
    return "\n".join(lines).rstrip() + "\n"


def _table(table: ReportTable) -> list[str]:
    lines = [
        f"{escaped(table.caption.rstrip('.'))}.",
        "",
        _row(list(map(escaped, table.columns))),
    ]
    lines.append(_row(["---:" if place in table.numeric else "---" for place in range(len(table.columns))]))
    lines += [_row(list(map(_cell, row))) for row in table.rows[:MOST_ROWS]]
    if len(table.rows) > MOST_ROWS:
        lines += ["", f"{len(table.rows) - MOST_ROWS:,} more rows are in the page."]
    return lines


def _cell(cell: Cell) -> str:
    return escaped(f"{cell.text} ({cell.detail})" if cell.detail else cell.text)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
