"""Where a task's prompts come from: bundled, refreshed for one target, or a source the user names.

lm-eval calls :func:`load_prompts` once per task and rank, after the model is loaded, with the
task's YAML metadata, the model arguments and ``--metadata``, all in one.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.hub import hub_prompt_file, parse_hub_id
from overbench_tasks.prompts.prompt_files import Row, read_prompts
from overbench_tasks.tables import SUFFIXES

if TYPE_CHECKING:
    import datasets

BUNDLED = Path(__file__).parents[1] / "data"
BUNDLED_SETS = ("overbench", "overbench_hard")
REFRESHED_SET = "overbench_model"
REFRESHED_NAME = "overbench_model.jsonl"
ACCEPTED_SET = "overbench_model_accepted"
ACCEPTED_NAME = "overbench_model_accepted.jsonl"
_REFRESHED = {REFRESHED_SET: REFRESHED_NAME, ACCEPTED_SET: ACCEPTED_NAME}


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
        ``{"test": Dataset}`` with the columns of :func:`~overbench_tasks.prompts.prompt_files.read_prompts`.

    Raises:
        OverbenchError: the file cannot be used, a misspelt ``overbench_...`` key, or ``overbench_model`` and
            no refreshed prompts for this target.
    """
    import datasets

    _reject_misspelt(metadata)
    rows = read_prompts(prompt_file(overbench_set, overbench_source, overbench_target, metadata))
    text = datasets.Value("string")
    features = datasets.Features(
        {
            "id": text,
            "prompt": text,
            "category": text,
            "features": datasets.List(text),
            "source": text,
        }
    )
    return {"test": datasets.Dataset.from_list(rows, features=features)}


def _reject_misspelt(metadata: Mapping[str, Any]) -> None:
    known = ["overbench_source", "overbench_target"]
    for key in metadata:
        if key.startswith("overbench_"):
            near = difflib.get_close_matches(key, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise OverbenchError(f"Unknown key {key!r} in --metadata. Expected {' or '.join(known)}.{hint}")


def prompt_file(
    overbench_set: str,
    overbench_source: str | None = None,
    overbench_target: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """The file that :func:`load_prompts` reads, for the same arguments and with the same errors."""
    if overbench_source is not None:
        return source_file(overbench_source, overbench_set)
    if overbench_set in _REFRESHED:
        target = overbench_target or target_name(metadata or {})
        return refreshed_file(target, _REFRESHED[overbench_set])
    if overbench_set not in BUNDLED_SETS:
        known = ", ".join((*BUNDLED_SETS, *_REFRESHED))
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
    if path.is_dir():
        return _release_file(path, overbench_set)
    if source in releases():
        return _release_file(releases_home() / source, overbench_set)
    if (hub_id := parse_hub_id(source)) is not None:
        return hub_prompt_file(hub_id, overbench_set)
    known = releases()
    near = difflib.get_close_matches(source, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else f" Releases there: {', '.join(known) or 'none'}."
    raise OverbenchError(
        f"No prompts at {source!r}. Expected a prompt file ({', '.join(SUFFIXES)}), the folder of a release, "
        f"the name of one in {releases_home()}, or a dataset on the hub as ORG/NAME.{hint}"
    )


def _release_file(folder: Path, overbench_set: str) -> Path:
    name = overbench_set if overbench_set in BUNDLED_SETS else "overbench"
    file = folder / f"{name}.parquet"
    if not file.is_file():
        raise OverbenchError(
            f"Expected the release {folder} to hold {file.name}, found none. Is it the folder that overbench "
            "aggregate wrote? For a file of prompts, name the file."
        )
    return file


def releases_home() -> Path:
    """The folder of releases that go by name; ``OVERBENCH_HOME`` moves it."""
    return _home() / "releases"


def releases() -> list[str]:
    """The names of all releases in :func:`releases_home`, sorted."""
    return sorted(path.parent.name for path in releases_home().glob("*/overbench.parquet"))


def bundled_prompts(overbench_set: str) -> list[Row]:
    """The rows of a bundled set, for tools that need no lm-eval."""
    return read_prompts(prompt_file(overbench_set))


def target_name(model_args: Mapping[str, Any]) -> str | None:
    """What tells one checkpoint from another in lm-eval's model arguments.

    Returns:
        ``pretrained`` or ``model``, local folders as absolute paths, then whatever else changes the
        weights: ``gguf_file``, ``peft``, ``delta``, ``subfolder``, and ``revision`` unless
        ``main``. None where neither ``pretrained`` nor ``model`` is there.
    """
    base = model_args.get("pretrained") or model_args.get("model")
    if not isinstance(base, str):
        return None
    if (folder := Path(base).expanduser()).is_dir():
        base = str(folder.resolve())
    parts = [base]
    for key in ("gguf_file", "peft", "delta", "subfolder", "revision"):
        value = model_args.get(key)
        if value and not (key == "revision" and value == "main"):
            parts.append(f"{key}={value}")
    return ",".join(parts)


def refreshed_home() -> Path:
    """The folder of all refreshed sets; ``OVERBENCH_HOME`` moves it."""
    return _home() / "targets"


def _home() -> Path:
    import platformdirs

    home = os.environ.get("OVERBENCH_HOME") or platformdirs.user_data_dir("overbench", appauthor=False)
    return Path(home)


def readable(name: str) -> str:
    """A target's name as part of a file name: at most 60 characters; two names may share one."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[-60:]


def refreshed_folder(target: str) -> Path:
    """Where the refreshed set of ``target`` belongs: a readable name plus a hash, so none collide."""
    return refreshed_home() / f"{readable(target)}-{hashlib.sha256(target.encode()).hexdigest()[:8]}"


def refreshed_targets() -> list[str]:
    """The folder names of all refreshed sets, sorted; any of them serves as ``overbench_target``."""
    return sorted(path.parent.name for path in refreshed_home().glob(f"*/{REFRESHED_NAME}"))


def refreshed_file(target: str | None, file_name: str = REFRESHED_NAME) -> Path:
    """The refreshed prompts of ``target``: a name as :func:`target_name` gives it, or its folder's.

    ``file_name`` is :data:`REFRESHED_NAME`, the prompts that the target itself refuses, or
    :data:`ACCEPTED_NAME`, all that passed the gates.

    Raises:
        OverbenchError: no target, or no prompts for it; lists near matches and says how to
            make a set.
    """
    otherwise = (
        'Or name another target with --metadata \'{"overbench_target": "NAME"}\', or a prompt file with '
        '--metadata \'{"overbench_source": "PATH"}\'.'
    )
    if target is None:
        raise OverbenchError(
            "overbench_model needs to know its target, but the model arguments name neither 'pretrained' "
            f"nor 'model'. {otherwise}"
        )
    home, known = refreshed_home(), refreshed_targets()
    folder = home / target if target in known else refreshed_folder(target)
    file = folder / file_name
    if not file.is_file():
        near = difflib.get_close_matches(folder.name, known, n=3, cutoff=0.4)
        listed = f"Nearest known: {', '.join(near)}." if near else f"{len(known)} targets are known."
        raise OverbenchError(
            f"No refreshed prompts for the target {target!r} in {home}. {listed} To make a set: overbench "
            f"refresh, with the same --model and --model_args. It writes {file}, which may also be a file of "
            f"your own with one JSON object with a 'prompt' per line. {otherwise}"
        )
    return file
