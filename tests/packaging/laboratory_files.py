"""Finds files of the tests in what is installed, such as the stand-in for a runtime."""

import re
from collections.abc import Iterable

_OF_THE_TESTS = re.compile(r"(^|/)tests([/.]|$)|laborator|fake_runtime", re.IGNORECASE)


def laboratory_files(names: Iterable[str]) -> list[str]:
    """Return the files or modules that belong to the tests, by their names."""
    return [name for name in names if _OF_THE_TESTS.search(name)]
