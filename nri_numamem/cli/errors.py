"""The error that a command shows as one line: what is wrong, where, and what to do about it."""


class UsageError(Exception):
    """A file, an option or the machine cannot be used as asked; the text is the whole message."""
