"""The one base of all errors that a user can mend; commands turn them into their message."""

from __future__ import annotations


class OverbenchError(ValueError):
    """Something cannot start or go on. The message says what was expected, what came, what to do."""

    exit_code = 1
    """What the command line ends with."""
