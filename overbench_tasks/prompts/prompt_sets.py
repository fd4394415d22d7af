"""Where a task's prompts come from: bundled, refreshed for one target, or a source the user names.

lm-eval calls :func:`load_prompts` once per task and rank, after the model is loaded, with the
task's YAML metadata, the model arguments and ``--metadata``, all in one. Of a file a bare ``prompt``
column is enough, so the OVERBENCH authors' own download works as it is.
"""

from __future__ import annotations

import difflib
import hashlib
import logging
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.hub import hub_prompt_file, parse_hub_id
from overbench_tasks.prompts.refreshed import REFRESHED_FILES, data_home, refreshed_file, target_name
from overbench_tasks.records import CATEGORIES, Category
from overbench_tasks.tables import SUFFIXES, read_table

if TYPE_CHECKING:
    import datasets

logger = logging.getLogger(__name__)

BUNDLED = Path(__file__).parents[1] / "data"
BUNDLED_SETS = ("overbench", "overbench_hard")

MAX_PROMPT_CHARS = 20_000
"""A longer "prompt" is a wrong column or a document, and would be truncated by most models."""

COLUMNS: Final = ("id", "prompt", "category", "features")
"""What is read of a file of prompts."""

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
        overbench_source: what takes the set's place, from ``--metadata``: see :func:`source_file`.
        overbench_target: the target whose refreshed prompts ``overbench_model`` reads, from
            ``--metadata``; without it the target is found from the model arguments.
        metadata: everything else lm-eval passes, model arguments included.

    Returns:
        ``{"test": Dataset}`` with the columns of :func:`read_prompts`.

    Raises:
        OverbenchError: the file cannot be used, a misspelt ``overbench_...`` key, or ``overbench_model`` and
            no refreshed prompts for this target.
    """
    import datasets

    known = ["overbench_source", "overbench_target"]
    for key in metadata:
        if key.startswith("overbench_"):
            near = difflib.get_close_matches(key, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise OverbenchError(f"Unknown key {key!r} in --metadata. Expected {' or '.join(known)}.{hint}")
    rows = read_prompts(prompt_file(overbench_set, overbench_source, overbench_target, metadata))
    text = datasets.Value("string")
    features = dict.fromkeys((*COLUMNS, "source"), text) | {"features": datasets.List(text)}
    return {"test": datasets.Dataset.from_list(rows, features=datasets.Features(features))}


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


def source_file(source: str, overbench_set: str = "overbench") -> Path:
    """The prompt file that an ``overbench_source`` means.

    Args:
        source: in this order a prompt file, a release's folder, the name of a release in
            :func:`releases_home`, or a dataset on the Hugging Face hub, as ``ORG/NAME`` or
            ``hub:ORG/NAME``, both with an optional ``@REVISION``.
        overbench_set: of a release, ``overbench_hard`` takes its hard prompts, any other set all of them.

    Raises:
        OverbenchError: it is none of these, or the hub cannot be reached.
    """
    path = Path(source).expanduser()
    if path.is_file() or path.suffix in SUFFIXES:
        return path
    known = releases()
    if path.is_dir() or source in known:
        folder = path if path.is_dir() else releases_home() / source
        file = folder / f"{overbench_set if overbench_set in BUNDLED_SETS else 'overbench'}.parquet"
        if not file.is_file():
            raise OverbenchError(
                f"Expected the release {folder} to hold {file.name}, found none. Is it the folder that "
                "overbench aggregate wrote? For a file of prompts, name the file."
            )
        return file
    if (hub_id := parse_hub_id(source)) is not None:
        return hub_prompt_file(hub_id, overbench_set)
    near = difflib.get_close_matches(source, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else f" Releases there: {', '.join(known) or 'none'}."
    raise OverbenchError(
        f"No prompts at {source!r}. Expected a prompt file ({', '.join(SUFFIXES)}), the folder of a release, "
        f"the name of one in {releases_home()}, or a dataset on the hub as ORG/NAME.{hint}"
    )


def releases_home() -> Path:
    """The folder of releases that go by name; ``OVERBENCH_HOME`` moves it."""
    return data_home() / "releases"


def releases() -> list[str]:
    """The names of all releases in :func:`releases_home`, sorted."""
    return sorted(path.parent.name for path in releases_home().glob("*/overbench.parquet"))


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


def read_prompts(path: str | Path) -> list[Row]:
    """All prompts of one file, checked.

    Args:
        path: a ``.jsonl``, ``.csv`` or ``.parquet`` file in UTF-8, also with ``.gz``, with a ``prompt``
            column and, optionally, ``id``, ``category`` (one of the five, as slug or title), ``features`` (a
            list; in CSV separated by ``;``) and any other columns, which are not read.

    Returns:
        one row per prompt in file order: ``id`` (the file's, or :func:`prompt_id`), ``prompt``
        (verbatim), ``category`` (a :data:`~overbench_tasks.records.Category` or None),
        ``features`` (list of str), ``source`` (``file name:row``, rows counted from 1). Without an
        id column, later copies of a prompt are dropped with one warning.

    Raises:
        OverbenchError: missing, empty, unreadable or of another type; not UTF-8; no prompt
            column; an empty or overlong prompt; a duplicate id; an unknown category.
    """
    path = Path(path).expanduser()
    used: dict[str, str] = {}
    copies = 0
    rows = []
    for number, (where, raw) in enumerate(read_table(path, COLUMNS), start=1):
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
        rows.append(
            {
                "id": identity,
                "prompt": prompt,
                "category": _category(raw.get("category"), where),
                "features": _features(raw.get("features"), where),
                "source": f"{path.name}:{number}",
            }
        )
    if not rows:
        raise OverbenchError(f"{path} has no rows. Expected at least one row with a 'prompt'.")
    if copies:
        logger.warning("%s: dropped %d repeated prompts, kept %d.", path, copies, len(rows))
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


def _category(value: object, where: str) -> Category | None:
    if value in (None, ""):
        return None
    slug = re.sub(r"[\s_&-]+", "_", str(value).strip().casefold().replace("&", " and "))
    if slug not in CATEGORIES:
        raise OverbenchError(
            f"{where}: unknown category {value!r}. Expected one of {', '.join(CATEGORIES)}, or none. "
            "Map it to one of these or drop the column."
        )
    return slug


def _features(value: object, where: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [word.strip() for word in value.split(";") if word.strip()]
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return value
    raise OverbenchError(f"{where}: expected 'features' to be a list of words, got {value!r}.")
