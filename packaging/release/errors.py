"""The error of this package."""


class ReleaseError(Exception):
    """A release cannot be made; the text is one line with the place and the remedy."""
