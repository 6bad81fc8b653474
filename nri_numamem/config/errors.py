"""The error that ends a command; a command prints it as one line: place, problem, remedy."""


class UsageError(Exception):
    """A file, an option or the machine cannot be used; the text is the whole message."""
