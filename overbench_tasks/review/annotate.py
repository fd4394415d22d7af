"""``overbench annotate``: a sample of replies, of one run or several, for a person to label.

The sample is drawn by stratum: label and rule that the automatic labeller gave. Rare ways to refuse
are so seen often enough to be judged, and half of the work does not go into replies that comply. Which
stratum a reply is from is in a file of its own, the *key*, since it would give the automatic label
away; ``overbench agreement`` reads it to weigh each reply by what it stands for.
"""

from __future__ import annotations

import csv
import heapq
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers import Labeller
from overbench_tasks.records import Label, Verdict
from overbench_tasks.reply_rows import ReplyColumns, ReplyRow, label_rows, read_replies
from overbench_tasks.tables import read_table, whole_file
from overbench_tasks.text import encodable, printable

KEY_COLUMN: Final = "sample_key"
LABEL_COLUMN: Final = "human_label"
SHEET_COLUMNS: Final = ("id", "prompt", "reply", LABEL_COLUMN, "note", KEY_COLUMN)

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "'")

Drawn = tuple[str, str | None, str, Verdict]
"""(id, prompt, reply, automatic verdict)."""


@dataclass(frozen=True)
class Key:
    """What a sheet must not show.

    Attributes:
        labeller: who labelled the run when the sample was drawn.
        source: the names of the runs' files.
        seed: of the draw.
        sizes: stratum, ``label/rule`` of the automatic labeller -> how many replies of the runs it holds.
        rows: id in the sheet -> its stratum.
    """

    labeller: str
    source: str
    seed: int
    sizes: dict[str, int]
    rows: dict[str, str]


def read_key(path: Path) -> Key:
    """Read the key of a drawn sample.

    Raises:
        OverbenchError: it is missing or not one.
    """
    try:
        return Key(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise OverbenchError(
            f"Cannot read {path} ({error}). The sample was drawn by strata and cannot be weighed without "
            f"its key. Put it beside the sheet; or, to count all rows alike, remove the column "
            f"{KEY_COLUMN!r} from the sheet."
        ) from error


def guarded(text: str) -> str:
    """``text`` as a spreadsheet may hold it: strangers' text must not start a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def unguarded(text: str) -> str:
    """The inverse of :func:`guarded`."""
    return text.removeprefix("'")


def allocate(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """How many of ``n`` replies to draw per stratum: even over labels, within them even over rules.

    What a small stratum cannot give, the others do; ``n`` or more than there are draws all.
    """
    by_label: dict[str, dict[str, int]] = defaultdict(dict)
    for stratum, size in sizes.items():
        by_label[stratum.partition("/")[0]][stratum] = size
    shares: dict[str, int] = {}
    for label, share in _fill({label: sum(of.values()) for label, of in by_label.items()}, n).items():
        shares |= _fill(by_label[label], share)
    return shares


def _fill(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Share ``n`` evenly without giving anyone more than its size: the smallest are served first."""
    shares = {}
    for served, (name, size) in enumerate(sorted(sizes.items(), key=lambda item: (item[1], item[0]))):
        shares[name] = min(size, n // (len(sizes) - served))
        n -= shares[name]
    return shares


def draw(
    rows: Iterable[ReplyRow], labeller: Labeller, n: int, seed: int
) -> tuple[list[Drawn], dict[str, int]]:
    """Draw the sample in one pass over the run; memory grows with n, not with the run.

    Returns:
        (the replies in random order, all strata with their sizes). Unscored replies have no label
        to check and are not drawn. The same run, labeller, n and seed give the same sample.
    """
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    kept: dict[str, list[tuple[float, int, Drawn]]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    labelled = label_rows(rows, labeller.label)
    replies = ((row, *pair) for row, new in labelled for pair in zip(row.replies, new, strict=True))
    for position, (row, reply, verdict) in enumerate(replies, start=1):
        if verdict.label == "unscored":
            continue
        stratum = _stratum(verdict)
        sizes[stratum] += 1
        # The n with the largest lots; the position keeps the rest from being compared.
        drawn = (rng.random(), position, (f"{row.id or 'row'}:{position}", row.prompt, reply, verdict))
        heapq.heappush(kept[stratum], drawn)
        if len(kept[stratum]) > n:
            heapq.heappop(kept[stratum])
    sample: list[tuple[float, int, Drawn]] = []
    for stratum, share in sorted(allocate(sizes, n).items()):
        sample += heapq.nlargest(share, kept[stratum])
    rng.shuffle(sample)
    return [reply for _, _, reply in sample], dict(sorted(sizes.items()))


def _stratum(verdict: Verdict) -> str:
    return f"{verdict.label}/{verdict.by}"


def make_sheet(
    sources: Sequence[Path],
    sheet: Path,
    labeller: Labeller,
    *,
    columns: ReplyColumns,
    n: int,
    seed: int,
    blind: bool,
) -> int:
    """Draw a sample and write the sheet and its key.

    Args:
        sources: sample logs or other files of replies; drawn from as if they were one.
        sheet: the CSV to write; the key is written beside it, ``<name>.key.json``.
        n: how many replies, at least 1.
        blind: whether the sheet hides the automatic labels, so that they cannot lead the person.

    Returns:
        how many were drawn.

    Raises:
        OverbenchError: a source cannot be read, or none has anything to label.
    """
    names = ", ".join(source.name for source in sources)
    rows = (row for source in sources for row in read_replies(source, columns))
    sample, sizes = draw(rows, labeller, n, seed)
    if not sample:
        raise OverbenchError(f"{names}: no reply could be labelled, there is nothing to draw from.")
    strata = {identity: _stratum(verdict) for identity, _, _, verdict in sample}
    key = Key(labeller.name, names, seed, sizes, strata)
    key_file = sheet.with_name(f"{sheet.stem}.key.json")
    with whole_file(key_file, sync=True) as out:
        out.write(json.dumps(asdict(key), indent=1) + "\n")
    write_sheet(sheet, [_sheet_row(drawn, key_file.name, blind) for drawn in sample])
    return len(sample)


def _sheet_row(drawn: Drawn, key: str, blind: bool) -> dict[str, str]:
    identity, prompt, reply, verdict = drawn
    row = dict.fromkeys(SHEET_COLUMNS, "")
    row |= {"id": identity, "prompt": guarded(prompt or ""), "reply": guarded(reply), KEY_COLUMN: key}
    return row if blind else row | {"automatic_label": verdict.label, "automatic_by": verdict.by}


def read_sheet(sheet: Path) -> list[dict[str, str]]:
    """The rows of a sheet, cells as they are.

    Raises:
        OverbenchError: it is not readable, or no sheet.
    """
    rows = [raw for _, raw in read_table(sheet)]
    if not rows or not set(SHEET_COLUMNS) <= set(rows[0]):
        raise OverbenchError(f"{sheet} is no sheet of this command. Name another file with --output_path.")
    return rows


def write_sheet(sheet: Path, rows: list[dict[str, str]]) -> None:
    """Write a sheet so that it is never seen half written; lone surrogates become ``?``."""
    with whole_file(sheet, sync=True) as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows({name: encodable(cell) for name, cell in row.items()} for row in rows)


ANSWERS: Final[dict[str, Label]] = {
    "c": "complied",
    "r": "refused",
    "p": "partial",
    "e": "evasive",
    "u": "unscored",
}
QUESTION: Final = "[c]omplied [r]efused [p]artial [e]vasive [u]nscorable, [s]kip [b]ack [q]uit: "


def ask(
    sheet: Path,
    read: Callable[[str], str] = input,
    write: Callable[[str], object] = print,
) -> int:
    """Ask a person in the terminal for each label that is missing; every answer is saved at once.

    Args:
        sheet: its rows that have a label are not asked.
        read: shows a question and returns the line typed; EOFError and KeyboardInterrupt quit.
        write: shows a line.

    Returns:
        how many rows of the sheet are labelled now.
    """
    rows = read_sheet(sheet)
    unlabelled = [row for row in rows if not row[LABEL_COLUMN].strip()]
    at = 0
    while at < len(unlabelled):
        row = unlabelled[at]
        write(f"\n--- {_labelled(rows)} of {len(rows)} labelled {'-' * 40}")
        for name in ("prompt", "reply", "automatic_label", "automatic_by"):
            if row.get(name):
                write(f"{name.upper().replace('_', ' ')}\n{_shown(unguarded(row[name]))}")
        try:
            answer = read(QUESTION).strip().casefold()[:1]
        except (EOFError, KeyboardInterrupt):
            answer = "q"
        if answer == "q":
            break
        if answer in ANSWERS:
            row[LABEL_COLUMN] = ANSWERS[answer]
            write_sheet(sheet, rows)
            at += 1
        elif answer == "s":
            at += 1
        elif answer == "b":
            at = max(0, at - 1)
        else:
            write("Please type one of c, r, p, e, u, s, b, q.")
    return _labelled(rows)


def _labelled(rows: Sequence[Mapping[str, str]]) -> int:
    return sum(bool(row[LABEL_COLUMN].strip()) for row in rows)


def _shown(text: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in text.splitlines())
