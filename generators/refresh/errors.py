"""The base of all errors of the refresh loop that its user can mend."""

from __future__ import annotations


class RefreshError(ValueError):
    """A refresh cannot start or go on. The message says what was expected, what came, what to do."""
