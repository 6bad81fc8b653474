"""Settings of the tests of what is installed."""

import pytest

from tests.packaging.single_file_program import check_builds


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look at the mark `needs_build` before any fixture is made."""
    check_builds(item)
