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
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from overbench_tasks.answer_keys.answer_key import read_answer_key
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.category_mapping import mapped_category, slug
from overbench_tasks.prompts.prompt_labels import LABEL_COLUMNS, told_label
from overbench_tasks.prompts.random_order import in_random_order
from overbench_tasks.prompts.refreshed import REFRESHED_FILES, refreshed_file, target_name
from overbench_tasks.prompts.sources import BUNDLED, BUNDLED_RELEASES, BUNDLED_SETS, source_file
from overbench_tasks.records import CATEGORIES, LABELS, PromptLabel
from overbench_tasks.tables import read_table
from overbench_tasks.text import number_of

if TYPE_CHECKING:
    import datasets
    import pyarrow

logger = logging.getLogger(__name__)

MAX_PROMPT_CHARS = 20_000
"""A longer "prompt" is a wrong column or a document, and would be truncated by most models."""

MORE_COLUMNS: Final = ("pair_id", "field", "language", "subset", "round", "answer_key")
"""Of rows, where a file has them; ``subset`` says what the file is a part of, as of ``overbench subset``,
``round`` that a refresh made the prompt (:mod:`overbench_tasks.prompts.whose_features`), and ``answer_key``
what an answer must hold (:mod:`overbench_tasks.answer_keys`)."""

COLUMNS: Final = ("id", "prompt", *LABEL_COLUMNS, "category", "features", *MORE_COLUMNS)
"""What is read of a file of prompts."""

KEYS: Final = (
    "overbench_source",
    "overbench_target",
    "overbench_revision",
    "overbench_unsafe_source",
    "overbench_sample",
    "overbench_sample_seed",
    "overbench_stop_at_ci_width",
    "overbench_until_width",
)
"""Of ``--metadata``, which lm-eval hands to all tasks of a run: each takes those that concern it."""

KEPT_PROMPTS: Final = "OVERBENCH_KEPT_PROMPTS"
"""In the environment, as JSON: task -> where ``Dataset.save_to_disk`` put its prompts as the task reads them,
so that who asks a part of them reads that part alone."""

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
    rows = of_label("safe", _prompts_of(file, "safe"), file.name)
    return as_dataset(rows, metadata, **told_of(file))


def load_keyed_prompts(
    *, overbench_source: str | None = None, **arguments: Any
) -> dict[str, datasets.Dataset]:
    """As :func:`load_prompts`, of prompts of which some have an answer key.

    Raises:
        OverbenchError: no source, no prompt with a key, or as :func:`load_prompts`.
    """
    advice = (
        'Name a prompt file with a column answer_key: --metadata \'{"overbench_source": "PATH"}\' '
        "(task_configs/README.md, Answer keys)."
    )
    if overbench_source is None:
        raise OverbenchError(f"Expected a source of prompts with answer keys, got none. {advice}")
    found = load_prompts(overbench_source=overbench_source, **arguments)
    if "answer_key" not in found["test"].column_names:
        raise OverbenchError(f"Expected prompts with answer keys in {overbench_source}, found none. {advice}")
    return found


def told_of(*files: Path) -> dict[str, str | list[str]]:
    """What the results say of the files that prompts were read from: their names and, of a bundled release,
    its name, since the version in lm-eval's table is the task's, whichever prompts it asks."""
    names = [file.name for file in files]
    releases = {folder: name for name, folder in BUNDLED_RELEASES.items()}
    found = {releases[file.parent] for file in files if file.parent in releases}
    told: dict[str, str | list[str]] = {"overbench_prompts": names[0] if len(names) == 1 else names}
    return told | ({"overbench_release": found.pop()} if len(found) == 1 else {})


def check_keys(metadata: Mapping[str, Any]) -> None:
    """Raise OverbenchError for a key that begins like ours and is none of :data:`KEYS`."""
    for key in metadata:
        if key.startswith("overbench_") and key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise OverbenchError(f"Unknown key {key!r} in --metadata. Expected {' or '.join(KEYS)}.{hint}")


def of_label(wanted: PromptLabel, rows: Iterable[Row], where: str) -> Iterator[Row]:
    """The rows that are ``wanted``; the others have no place in a rate over these, and that is said.

    Raises:
        OverbenchError: none is.
    """
    kept = others = 0
    for row in rows:
        if row["prompt_label"] == wanted:
            kept += 1
            yield row
        else:
            others += 1
    if not kept:
        other = "unsafe" if wanted == "safe" else "safe"
        raise OverbenchError(
            f"Expected {wanted} prompts in {where}, and all {others:,} are {other}. "
            + (
                "Over-refusal is measured on safe prompts; take overbench_balance with this file as "
                "overbench_unsafe_source, or the unsafe task of the set it comes from (the tag safety)."
                if wanted == "safe"
                else "Safety is measured on unsafe prompts; take overbench with this file as "
                "overbench_source, or the safe task of the set it comes from (the tag "
                "oversensitivity_neighbours)."
            )
        )
    if others:
        logger.warning(
            "%s: left out, since not %s: %d of %s. overbench_balance measures both sides.",
            where,
            wanted,
            others,
            number_of(kept + others, "prompt"),
        )


def as_dataset(rows: Iterable[Row], metadata: Mapping[str, Any], **told: Any) -> dict[str, datasets.Dataset]:
    """What lm-eval's ``custom_dataset`` wants of the rows of :func:`checked_rows`, which it takes one by one.

    ``told`` and a hash of the prompts, their labels, categories and answer keys become the dataset's
    description, as JSON; :class:`~overbench_tasks.task.OverbenchTask` writes it into the results.

    Args:
        metadata: everything else lm-eval passes; see :func:`_as_asked`.

    Raises:
        OverbenchError: a part that can't be drawn, or no width.
    """
    import datasets
    import pyarrow

    rows, part = _as_asked(rows, metadata)
    told |= part
    text = datasets.Value("string")
    names = ("id", "prompt", "prompt_label", "category", "overbench_category", "features", "source")
    features = datasets.Features(
        dict.fromkeys((*names, *MORE_COLUMNS), text) | {"features": datasets.List(text)}
    )
    sha256 = hashlib.sha256()
    table = pyarrow.Table.from_batches(
        _batches(_hashed(rows, sha256), features.arrow_schema), features.arrow_schema
    )
    told["overbench_prompts_sha256"] = sha256.hexdigest()
    if subsets := sorted(table["subset"].unique().drop_null().to_pylist()):
        told["overbench_subset"] = "; ".join(subsets)
        logger.warning(
            "The prompts are a %s. Rates are estimates of those on all of them; overbench subset RELEASE "
            "--estimate OUT gives their intervals.",
            told["overbench_subset"],
        )
    about = datasets.DatasetInfo(description=json.dumps(told), features=features)
    # Without a fingerprint the whole table would be pickled to make one.
    found = datasets.Dataset(table, about, fingerprint=uuid4().hex[:16])
    unused = [name for name in MORE_COLUMNS if table[name].null_count == len(table)]
    return {"test": found.remove_columns(unused)}


def _as_asked(rows: Iterable[Row], metadata: Mapping[str, Any]) -> tuple[Iterable[Row], dict[str, Any]]:
    """The rows that are asked, in their order, and what the results say of that.

    With ``overbench_sample`` so many are drawn, and with it or ``overbench_stop_at_ci_width``
    (:mod:`overbench_tasks.metrics.stop_at_ci_width`) they come in random order
    (:mod:`overbench_tasks.prompts.random_order`), both by ``overbench_sample_seed``; the results then say of
    how many prompts of each side these are. Else all rows as they come.

    Raises:
        OverbenchError: a size, a seed or a width that is none.
    """
    size, width = metadata.get("overbench_sample"), metadata.get("overbench_stop_at_ci_width")
    if "overbench_until_width" in metadata:
        warnings.warn(
            "overbench_until_width is overbench_stop_at_ci_width since 0.2.0; the old name goes with 0.3.",
            FutureWarning,
            stacklevel=2,
        )
        width = metadata["overbench_until_width"] if width is None else width
    seed = metadata.get("overbench_sample_seed", 0)
    if size is not None and (type(size) is not int or size < 1):
        raise OverbenchError(
            f"overbench_sample: expected how many prompts to draw, such as 100, got {size!r}."
        )
    if type(seed) is not int:
        raise OverbenchError(f"overbench_sample_seed: expected a whole number, such as 0, got {seed!r}.")
    if width is not None and (not isinstance(width, float) or not 0 < width < 1):
        raise OverbenchError(
            f"overbench_stop_at_ci_width: expected a width between 0 and 1, such as 0.04, got {width!r}."
        )
    if size is None and width is None:
        return rows, {}
    rows = list(rows)
    told: dict[str, Any] = {"overbench_asked_of": dict(Counter(row["prompt_label"] for row in rows))}
    if size is not None:
        told |= {"overbench_sample": size, "overbench_sample_seed": seed}
    return in_random_order(rows, size, seed), told


def _batches(rows: Iterator[Row], schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
    """Columns, a thousand rows at a time: as dicts, a million of them would take a gigabyte."""
    import pyarrow

    pool = pyarrow.system_memory_pool()  # Arrow's own keeps twice what such small pieces need
    while some := list(islice(rows, 1000)):
        arrays = [
            pyarrow.array([row.get(one.name) for row in some], one.type, memory_pool=pool) for one in schema
        ]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _hashed(rows: Iterable[Row], sha256: hashlib._Hash) -> Iterator[Row]:
    """The rows, and on the way their prompts, labels, categories and answer keys for a hash, as one JSON list
    of lists."""
    before = b"["
    for row in rows:
        key = [row["answer_key"]] if "answer_key" in row else []
        row_json = json.dumps([row["prompt"], row["prompt_label"], row["category"], *key])
        sha256.update(before + row_json.encode())
        before = b", "
        yield row
    sha256.update(b"[]" if before == b"[" else b"]")


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
    return list(_prompts_of(path, default))


def _prompts_of(path: Path, default: PromptLabel) -> Iterator[Row]:
    row = None
    for row in checked_rows(read_table(path, COLUMNS), path.name, default):
        yield row
    if row is None:
        raise OverbenchError(f"{path} has no rows. Expected at least one row with a 'prompt'.")


def checked_rows(
    records: Iterable[tuple[str, Row]], name: str, default: PromptLabel = "safe"
) -> Iterator[Row]:
    """The prompts of any table, one by one; of those before nothing is held but their ids.

    Args:
        records: (where it stands, for messages; row by column). Beside ``prompt`` a row may have
            ``id``, ``category`` (any), ``features`` (a list; in CSV separated by ``;``), those of
            :data:`MORE_COLUMNS`, and ``prompt_label``, ``label`` (both safe or unsafe) or ``should_refuse``
            (true or false).
        name: of the table, for ``source``.
        default: see :func:`read_prompts`.

    Yields:
        one row per prompt in their order: ``id`` (the row's, or :func:`prompt_id`), ``prompt`` (verbatim),
        ``prompt_label`` (a :data:`~overbench_tasks.records.PromptLabel`), ``category`` (as the row has it;
        one of our five as its slug), ``overbench_category`` (the
        :data:`~overbench_tasks.records.Category` it stands for, or None), ``features`` (list of str),
        ``source`` (``name:row``), and those of :data:`MORE_COLUMNS` that the row has, as text (``answer_key``
        as JSON in one form). Without an
        id, later copies of a prompt are dropped with one warning.

    Raises:
        OverbenchError: no prompt column; an empty or overlong prompt; a duplicate id; an unknown label; an
            ``answer_key`` that is none, or that of an unsafe prompt.
    """
    used: dict[str, int] = {}
    copies = 0
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
                f"{where}: id {identity!r} was already used in row {used[identity]:,}. Ids must be unique; "
                "mend the file or drop its id column (ids are then made from the text)."
            )
        used[identity] = number
        category, ours = _category(raw.get("category"))
        if category and not ours:
            unmapped.add(category)
        label = None
        if any(raw.get(column) not in (None, "") for column in LABEL_COLUMNS):
            label = told_label(raw, where)
            if label is None and raw["label"] not in LABELS:
                odd_labels.add(str(raw["label"]))
        row: Row = {
            "id": identity,
            "prompt": prompt,
            "prompt_label": label or default,
            "category": category,
            "overbench_category": ours,
            "features": _features(raw.get("features"), where),
            "source": f"{name}:{number}",
            **{column: str(raw[column]) for column in MORE_COLUMNS if raw.get(column) not in (None, "")},
        }
        if "answer_key" in row:
            row["answer_key"] = _answer_key(raw["answer_key"], label or default, where)
        yield row
    if copies:
        dropped = number_of(copies, "repeated prompt")
        logger.warning("%s: dropped %s, kept %d.", name, dropped, len(used))
    if odd_labels:
        logger.warning(
            "%s: 'label' says %s, neither safe nor unsafe; such prompts are taken as %s. Say what they are "
            "in a column 'prompt_label'.",
            name,
            ", ".join(sorted(odd_labels)[:5]),
            default,
        )
    if unmapped:
        logger.info("%s: categories kept, and none of our five: %s", name, ", ".join(sorted(unmapped)))


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


def _answer_key(value: object, prompt_label: PromptLabel, where: str) -> str:
    """The key as JSON, in one form."""
    if prompt_label == "unsafe":
        raise OverbenchError(
            f"{where}: an unsafe prompt has an answer_key, and should be declined. Remove one of the two."
        )
    return read_answer_key(value, where).as_json()


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
