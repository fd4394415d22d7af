"""The tables of ``task_configs/README.md`` about other people's sets, made from their entries.

    python -m overbench_tasks.prompts.neighbour_readme

writes them into the README of this checkout. A test compares.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from overbench_tasks.prompts.category_mapping import TABLE
from overbench_tasks.prompts.neighbour_sets import NEIGHBOURS, Mapped, Neighbour
from overbench_tasks.tables import whole_file

_WIDTH: Final = 118
README: Final = Path(__file__).parents[2] / "task_configs" / "README.md"


def neighbour_table() -> Iterator[str]:
    """A row for each set: task, prompts, rows, where it is, file, licence."""
    yield "| task | prompts | rows | on the hub | file | licence |"
    yield "| --- | --- | ---: | --- | --- | --- |"
    for task, neighbour in NEIGHBOURS.items():
        values = (
            f"`{task}`",
            neighbour.prompt_label,
            neighbour.asked or f"{neighbour.published:,}",
            _on_the_hub(neighbour),
            f"`{neighbour.file}`",
            _licence(neighbour.licence),
        )
        yield f"| {' | '.join(values)} |"


def _on_the_hub(neighbour: Neighbour) -> str:
    if neighbour.hub_id is None:
        return "address not known"
    config = f", `{neighbour.config}`" if neighbour.config else ""
    revision = f"at `{neighbour.revision[:8]}`" if neighbour.revision else "not pinned"
    return f"`{neighbour.hub_id}`{config}, {revision}"


def _licence(spdx: str) -> str:
    words = re.sub(r"-(?=BY|By|\d)", " ", spdx)
    return f"**{words}: not for commercial use**" if "-NC" in spdx else words


def notes() -> Iterator[str]:
    """The notes on sets, each note once."""
    for note in dict.fromkeys(neighbour.note for neighbour in NEIGHBOURS.values()):
        yield from textwrap.wrap(note and f"- {note}", width=_WIDTH, subsequent_indent="  ")


def category_table() -> Iterator[str]:
    """A row for each group of other sets' categories that map to the same categories."""
    yield "| theirs | ours | OR-Bench's |"
    yield "| --- | --- | --- |"
    names: dict[Mapped, list[str]] = {}
    for name, mapped in TABLE.items():
        names.setdefault(mapped, []).append(f"`{name}`")
    for mapped, theirs in names.items():
        ours = f"`{mapped.category}`" if mapped.category else "–"
        yield f"| {', '.join(theirs)} | {ours} | {mapped.or_bench_category or '–'} |"


def with_tables(text: str) -> str:
    """A page with the tables between ``<!-- NAME -->`` and ``<!-- /NAME -->`` as the entries have them."""
    made = {"neighbours": neighbour_table(), "neighbour notes": notes(), "categories": category_table()}
    for name, lines in made.items():
        block = "\n".join(lines).replace("\\", r"\\")
        text = re.sub(
            rf"(<!-- {name} -->\n).*?\n(<!-- /{name} -->)", rf"\g<1>{block}\n\g<2>", text, flags=re.DOTALL
        )
    return text


if __name__ == "__main__":
    page = with_tables(README.read_text(encoding="utf-8"))
    with whole_file(README) as file:
        file.write(page)
