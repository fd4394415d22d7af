"""Releases on the Hugging Face hub, as a source of prompts.

The hub's own cache is used: without a network a release loaded before is found again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from overbench_tasks.sources import SUFFIXES, PromptSourceError

PREFIX: Final = "hub:"
HARD_SET: Final = "overbench_hard"
TIMEOUT_SEC: Final = 10.0
"""For the first answer. Without one the cache decides."""

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_ID = re.compile(rf"({_NAME}/{_NAME})(?:@([^\s@]+))?")


@dataclass(frozen=True)
class HubId:
    """A dataset of the hub; ``revision`` is a branch, tag or commit, None the main branch."""

    repo_id: str
    revision: str | None = None


def parse_hub_id(source: str) -> HubId | None:
    """``hub:ORG/NAME`` or ``ORG/NAME``, with ``@REVISION`` behind it or not; None where it is neither.

    Without ``hub:``, what ends like a prompt file is none. Whether a file or folder of that name is
    there must be looked up before.

    Raises:
        PromptSourceError: it begins with ``hub:``, and no id follows.
    """
    name = source.removeprefix(PREFIX)
    match = _ID.fullmatch(name)
    if match and (name != source or not name.lower().endswith(SUFFIXES)):
        return HubId(match[1], match[2])
    if name != source:
        raise PromptSourceError(
            f"Expected {PREFIX}ORG/NAME, with @REVISION behind it or not, got {source!r}. Copy the name from "
            "the dataset's page."
        )
    return None


def hub_prompt_file(source: str | HubId, overbench_set: str = "overbench") -> Path:
    """Download the prompts of a release from the hub, or find them in the hub's cache.

    The token, for a private release, is huggingface_hub's: ``HF_TOKEN`` or ``hf auth login``.

    Args:
        source: see :func:`parse_hub_id`.
        overbench_set: ``overbench_hard`` takes ``overbench_hard.parquet``, any other ``overbench.parquet``.

    Returns:
        a Parquet file for :func:`~overbench_tasks.sources.read_prompts`.

    Raises:
        PromptSourceError: not an id, no such dataset or revision, no release in it, not allowed, or the hub
            can't be reached and the cache doesn't have it.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HTTPError

    hub_id = parse_hub_id(source) if isinstance(source, str) else source
    if hub_id is None:
        raise PromptSourceError(f"Expected {PREFIX}ORG/NAME or ORG/NAME, got {source!r}.")
    name = f"{HARD_SET if overbench_set == HARD_SET else 'overbench'}.parquet"
    try:
        file = hf_hub_download(
            hub_id.repo_id,
            name,
            repo_type="dataset",
            revision=hub_id.revision,
            etag_timeout=TIMEOUT_SEC,
        )
    except (HTTPError, OSError, ValueError) as error:
        raise PromptSourceError(hub_trouble(error, hub_id, name)) from error
    except Exception as error:
        # EntryNotFoundError has been an OSError in some versions of huggingface_hub only.
        if type(error).__name__ not in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
            raise
        raise PromptSourceError(hub_trouble(error, hub_id, name)) from error
    return Path(file)


def hub_trouble(error: Exception, hub_id: HubId, file: str | None = None) -> str:
    """What an error of huggingface_hub means, and what to do about it."""
    from huggingface_hub import constants, errors

    where = f"the dataset {hub_id.repo_id} on {constants.ENDPOINT}"
    at = f" at {hub_id.revision}" if hub_id.revision else ""
    first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    if isinstance(error, errors.HFValidationError):
        return f"Expected the id of {where}, ORG/NAME, got one that the hub doesn't allow: {first_line}."
    if isinstance(error, errors.GatedRepoError):
        return (
            f"Access to {where} must be granted. Accept its terms on its page, then set HF_TOKEN or run hf "
            "auth login."
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"Expected {where}, found none, or none that may be seen. Check the name; for a private one set "
            "HF_TOKEN or run hf auth login."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"Expected the revision {hub_id.revision} in {where}, found none. Check the name behind the @."
    if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
        return _unreachable(where, at, "it is not in the hub's cache either")
    if isinstance(error, errors.EntryNotFoundError):
        return (
            f"Expected {file} in {where}{at}, found none. It must be a release, as overbench push puts "
            "there; of another dataset download the file and give its path."
        )
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        advice = "Set HF_TOKEN to a token that may do this." if status in (401, 403) else "Try again later."
        return f"The hub answered {status} about {where}{at}: {first_line}. {advice}"
    return _unreachable(where, at, first_line)


def _unreachable(where: str, at: str, detail: str) -> str:
    return (
        f"Can't reach {where}{at}: {detail}. Check the network, HF_ENDPOINT and HF_HUB_OFFLINE, or give the "
        "path of a release that is on this machine."
    )
