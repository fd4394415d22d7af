"""The report in Markdown: what fits into a README or a merge request, without the prompts."""

from __future__ import annotations

from generators.report.sections.section import Report
from generators.report.table import Cell, ReportTable
from overbench_tasks.text import escaped

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
