"""The base of all errors that a user can fix. Commands print their message."""

from __future__ import annotations


class OverbenchError(ValueError):
    """A command cannot start or continue. The message says what was expected, what came, what to do."""

    exit_code = 1
    """What the command line ends with."""
