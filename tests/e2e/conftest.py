"""The machines of the selected tests run as tests/machines/session.py describes."""

import pytest

from tests.machines import session


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin that runs machines."""
    session.register(config)
