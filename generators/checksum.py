"""The SHA-256 of a file, however large."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256_of(file: Path) -> str:
    """64 hex digits, as ``sha256sum`` prints them.

    Raises:
        OSError: the file cannot be read.
    """
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
