"""What goes wrong with releases and reports, in words a user can act on."""


class ReleaseError(ValueError):
    """A release, log or report cannot be read or made. Says what was expected, what came, what to do."""
