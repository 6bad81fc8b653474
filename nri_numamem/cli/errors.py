"""Errors that end a command or a connection.

A UsageError is shown as one line: what is wrong, where, and what to do about it. The others end a
connection, and with it the process where that is the only one (``launched``).
"""


class UsageError(Exception):
    """A file, an option or the machine cannot be used as asked; the text is the whole message."""


class NoEngineError(Exception):
    """There is no engine, and this process will not get one; the connection is to end."""


class UnsettledError(Exception):
    """The books lack what a reply has given; the connection is to end."""
