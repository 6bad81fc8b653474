"""How a life ends that does not end well."""


class Failure(Exception):  # noqa: N818 - what a life ends with
    """Something that must hold does not; the text has a line for each complaint."""


class Alarm(Failure):
    """Something that no busy machine excuses."""
