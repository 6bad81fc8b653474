"""The package's example."""

import doctest

from nri_numamem import fake_runtime


def test_example_in_the_docstring() -> None:
    failed, tried = doctest.testmod(fake_runtime)
    assert (failed, tried > 5) == (0, True)
