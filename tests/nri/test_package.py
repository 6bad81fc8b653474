"""The package's example."""

import doctest

from nri_numamem import nri


def test_example_in_the_docstring() -> None:
    failed, tried = doctest.testmod(nri)
    assert (failed, tried > 5) == (0, True)
