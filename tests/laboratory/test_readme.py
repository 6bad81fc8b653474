"""The example of the page."""

import doctest


def test_the_example_is_true() -> None:
    failed, tried = doctest.testfile("README.md")
    assert (failed, tried > 5) == (0, True)
