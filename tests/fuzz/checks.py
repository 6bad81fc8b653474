"""Checks of error texts."""


def check_one_line(error: Exception, start: str = "") -> None:
    """Assert that the error's text is one line that begins with `start`."""
    text = str(error)
    assert text.startswith(start)
    assert len(text.splitlines()) == 1
