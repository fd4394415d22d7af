"""Where a task's prompts come from: bundled, refreshed for one target, or a source the user names.

lm-eval calls :func:`load_prompts` once per task and rank, after the model is loaded, with the
task's YAML metadata, the model arguments and ``--metadata``, all in one. Of a file a bare ``prompt``
column is enough, so the OVERBENCH authors' own download works as it is.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.foreign_categories import mapped_category, slug
from overbench_tasks.prompts.prompt_labels import LABEL_COLUMNS, of_label, told_label
from overbench_tasks.prompts.random_order import in_random_order
from overbench_tasks.prompts.refreshed import REFRESHED_FILES, refreshed_file, target_name
from overbench_tasks.prompts.sources import BUNDLED, BUNDLED_SETS, source_file
from overbench_tasks.records import CATEGORIES, LABELS, PromptLabel
from overbench_tasks.tables import read_table

if TYPE_CHECKING:
    import datasets

logger = logging.getLogger(__name__)

MAX_PROMPT_CHARS = 20_000
"""A longer "prompt" is a wrong column or a document, and would be truncated by most models."""

MORE_COLUMNS: Final = ("pair_id", "field", "subset")
"""Of rows, where a file has them; ``subset`` says what the file is a part of, as of ``overbench subset``."""

COLUMNS: Final = ("id", "prompt", *LABEL_COLUMNS, "category", "features", *MORE_COLUMNS)
"""What is read of a file of prompts."""

KEYS: Final = (
    *("overbench_source", "overbench_target", "overbench_revision", "overbench_unsafe_source"),
    "overbench_until_width",
)
"""Of ``--metadata``, which lm-eval hands to all tasks of a run: each takes those that concern it."""

Row = dict[str, Any]


def load_prompts(
    *,
    overbench_set: str,
    overbench_source: str | None = None,
    overbench_target: str | None = None,
    **metadata: Any,
) -> dict[str, datasets.Dataset]:
    """The prompts of one task, as lm-eval's ``custom_dataset`` wants them.

    Args:
        overbench_set: ``overbench``, ``overbench_hard`` or ``overbench_model``; from the task file.
        overbench_source: what takes the set's place, from ``--metadata``: see
            :func:`~overbench_tasks.prompts.sources.source_file`.
        overbench_target: the target whose refreshed prompts ``overbench_model`` reads, from
            ``--metadata``; without it the target is found from the model arguments.
        metadata: everything else lm-eval passes, model arguments included.

    Returns:
        ``{"test": Dataset}`` with the columns of :func:`read_prompts`; unsafe prompts are left out.

    Raises:
        OverbenchError: the file cannot be used, a misspelt ``overbench_...`` key, or ``overbench_model`` and
            no refreshed prompts for this target; no safe prompt in the file.
    """
    check_keys(metadata)
    file = prompt_file(overbench_set, overbench_source, overbench_target, metadata)
    rows = read_prompts(file)
    if any(row["prompt_label"] == "unsafe" for row in rows):
        rows = of_label("safe", rows, file.name)
    return as_dataset(rows, metadata, overbench_prompts=file.name)


def check_keys(metadata: Mapping[str, Any]) -> None:
    """Raise OverbenchError for a key that begins like ours and is none of :data:`KEYS`."""
    for key in metadata:
        if key.startswith("overbench_") and key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise OverbenchError(f"Unknown key {key!r} in --metadata. Expected {' or '.join(KEYS)}.{hint}")


def as_dataset(rows: Sequence[Row], metadata: Mapping[str, Any], **told: Any) -> dict[str, datasets.Dataset]:
    """What lm-eval's ``custom_dataset`` wants of the rows of :func:`read_prompts`.

    ``told`` and a hash of the prompts, their labels and categories become the dataset's description, as
    JSON; :class:`~overbench_tasks.task.OverbenchTask` writes it into the results.

    Args:
        metadata: everything else lm-eval passes. With ``overbench_until_width``
            (:mod:`overbench_tasks.metrics.until_width`) prompts come in random order, and it is told how many
            of each side there are.

    Raises:
        OverbenchError: it is no such width.
    """
    import datasets
    import pyarrow

    if (width := metadata.get("overbench_until_width")) is not None:
        if not isinstance(width, float) or not 0 < width < 1:
            raise OverbenchError(
                f"overbench_until_width: expected a width between 0 and 1, such as 0.04, got {width!r}."
            )
        rows = in_random_order(rows)
        told["overbench_asked_of"] = dict(Counter(row["prompt_label"] for row in rows))
    text = datasets.Value("string")
    columns = ["id", "prompt", "prompt_label", "category", "overbench_category", "features", "source"]
    columns += [name for name in MORE_COLUMNS if any(name in row for row in rows)]
    features = datasets.Features(dict.fromkeys(columns, text) | {"features": datasets.List(text)})
    told["overbench_prompts_sha256"] = _sha256(rows)
    if subsets := sorted({row["subset"] for row in rows if "subset" in row}):
        told["overbench_subset"] = "; ".join(subsets)
        logger.warning(
            "The prompts are a %s. Rates are estimates of those on all of them; overbench subset RELEASE "
            "--estimate OUT gives their intervals.",
            told["overbench_subset"],
        )
    # Dataset.from_list would copy each row and look at each value twice.
    values = {name: [row.get(name) for row in rows] for name in columns}
    table = pyarrow.Table.from_pydict(values, schema=features.arrow_schema)
    about = datasets.DatasetInfo(description=json.dumps(told), features=features)
    return {"test": datasets.Dataset(table, about)}


def _sha256(rows: Sequence[Row]) -> str:
    """64 hex digits over prompts, labels and categories, as one JSON list of lists."""
    found = hashlib.sha256()
    for number, row in enumerate(rows):
        found.update(b", " if number else b"[")
        found.update(json.dumps([row["prompt"], row["prompt_label"], row["category"]]).encode())
    found.update(b"]" if rows else b"[]")
    return found.hexdigest()


def prompt_file(
    overbench_set: str,
    overbench_source: str | None = None,
    overbench_target: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """The file that :func:`load_prompts` reads, for the same arguments and with the same errors."""
    if overbench_source is not None:
        return source_file(overbench_source, overbench_set)
    if overbench_set in REFRESHED_FILES:
        target = overbench_target or target_name(metadata or {})
        return refreshed_file(target, REFRESHED_FILES[overbench_set])
    if overbench_set not in BUNDLED_SETS:
        known = ", ".join((*BUNDLED_SETS, *REFRESHED_FILES))
        raise OverbenchError(f"Unknown overbench_set {overbench_set!r}. Expected one of {known}.")
    return BUNDLED / f"{overbench_set}.parquet"


def bundled_prompts(overbench_set: str) -> list[Row]:
    """The rows of a bundled set, for tools that need no lm-eval."""
    return read_prompts(prompt_file(overbench_set))


def prompt_id(prompt: str) -> str:
    """A stable id from the text alone: case, Unicode form and white space do not change it.

    Returns:
        ``"ob-"`` and the first 12 hex digits of the SHA-256 of :func:`normalised`.
    """
    return "ob-" + hashlib.sha256(normalised(prompt).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def normalised(prompt: str) -> str:
    """The prompt as compared for equality: NFKC, case folded, white space collapsed, stripped."""
    return " ".join(unicodedata.normalize("NFKC", prompt).casefold().split())


def read_prompts(path: str | Path, default: PromptLabel = "safe") -> list[Row]:
    """All prompts of one file, checked.

    Args:
        path: a ``.jsonl``, ``.csv`` or ``.parquet`` file in UTF-8, also with ``.gz``, with a ``prompt``
            column and, optionally, those of :func:`checked_rows` and any other columns, which are not read.
        default: what prompts are of which the file doesn't say it.

    Returns:
        see :func:`checked_rows`; ``source`` is ``file name:row``, rows counted from 1.

    Raises:
        OverbenchError: missing, empty, unreadable or of another type; not UTF-8; a bad row.
    """
    path = Path(path).expanduser()
    rows = checked_rows(read_table(path, COLUMNS), path.name, default)
    if not rows:
        raise OverbenchError(f"{path} has no rows. Expected at least one row with a 'prompt'.")
    return rows


def checked_rows(records: Iterable[tuple[str, Row]], name: str, default: PromptLabel = "safe") -> list[Row]:
    """The prompts of any table.

    Args:
        records: (where it stands, for messages; row by column). Beside ``prompt`` a row may have
            ``id``, ``category`` (any), ``features`` (a list; in CSV separated by ``;``), those of
            :data:`MORE_COLUMNS`, and ``prompt_label``, ``label`` (both safe or unsafe) or ``should_refuse``
            (true or false).
        name: of the table, for ``source``.
        default: see :func:`read_prompts`.

    Returns:
        one row per prompt in their order: ``id`` (the row's, or :func:`prompt_id`), ``prompt`` (verbatim),
        ``prompt_label`` (a :data:`~overbench_tasks.records.PromptLabel`), ``category`` (as the row has it;
        one of our five as its slug), ``overbench_category`` (the
        :data:`~overbench_tasks.records.Category` it stands for, or None), ``features`` (list of str),
        ``source`` (``name:row``), and those of :data:`MORE_COLUMNS` that the row has, as text. Without an
        id, later copies of a prompt are dropped with one warning.

    Raises:
        OverbenchError: no prompt column; an empty or overlong prompt; a duplicate id; an unknown label.
    """
    used: dict[str, str] = {}
    copies = 0
    rows = []
    unmapped, odd_labels = set(), set()
    for number, (where, raw) in enumerate(records, start=1):
        prompt = _prompt(raw, where)
        given = raw.get("id") not in (None, "")
        identity = str(raw["id"]) if given else prompt_id(prompt)
        if identity in used:
            if not given:
                copies += 1
                continue
            raise OverbenchError(
                f"{where}: id {identity!r} was already used in {used[identity]}. Ids must be unique; "
                "mend the file or drop its id column (ids are then made from the text)."
            )
        used[identity] = where
        category, ours = _category(raw.get("category"))
        if category and not ours:
            unmapped.add(category)
        label = None
        if any(raw.get(column) not in (None, "") for column in LABEL_COLUMNS):
            label = told_label(raw, where)
            if label is None and raw["label"] not in LABELS:
                odd_labels.add(str(raw["label"]))
        rows.append(
            {
                "id": identity,
                "prompt": prompt,
                "prompt_label": label or default,
                "category": category,
                "overbench_category": ours,
                "features": _features(raw.get("features"), where),
                "source": f"{name}:{number}",
                **{column: str(raw[column]) for column in MORE_COLUMNS if raw.get(column) not in (None, "")},
            }
        )
    if copies:
        logger.warning("%s: dropped %d repeated prompts, kept %d.", name, copies, len(rows))
    if odd_labels:
        logger.warning(
            "%s: 'label' says %s, neither safe nor unsafe; such prompts are taken as %s. Say what they are "
            "in a column 'prompt_label'.",
            *(name, ", ".join(sorted(odd_labels)[:5]), default),
        )
    if unmapped:
        logger.info("%s: categories kept, and none of our five: %s", name, ", ".join(sorted(unmapped)))
    return rows


def _prompt(raw: Row, where: str) -> str:
    if "prompt" not in raw:
        raise OverbenchError(
            f"{where}: expected a 'prompt' column, found {', '.join(map(repr, raw)) or 'none at all'}. "
            "Rename the column that holds the prompts."
        )
    prompt = raw["prompt"]
    if not isinstance(prompt, str) or not prompt.strip():
        raise OverbenchError(
            f"{where}: expected a prompt with text in it, got {prompt!r}. Fill or remove the row."
        )
    if len(prompt) > MAX_PROMPT_CHARS:
        raise OverbenchError(
            f"{where}: the prompt has {len(prompt):,} characters, more than the limit of "
            f"{MAX_PROMPT_CHARS:,}. Check that 'prompt' is the right column, or shorten or remove the row."
        )
    return prompt


def _category(value: object) -> tuple[str | None, str | None]:
    """As it is kept, and which of ours it stands for."""
    if value in (None, ""):
        return None, None
    if value in CATEGORIES:
        return str(value), str(value)
    name = str(value).strip()
    ours = mapped_category(name).category
    return (ours if ours and slug(name) == ours else name), ours


def _features(value: object, where: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [word.strip() for word in value.split(";") if word.strip()]
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return value
    raise OverbenchError(f"{where}: expected 'features' to be a list of words, got {value!r}.")
