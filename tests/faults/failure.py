"""The errors that end a failed life."""


class Failure(Exception):  # noqa: N818 - the result of a life
    """A condition is violated; the text has one line for each problem."""


class CertainFailure(Failure):
    """A failure that a busy machine cannot explain."""
