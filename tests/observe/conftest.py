"""Fixtures of the observe tests."""

from collections.abc import Iterator

import pytest

from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.log.writer import Losses


@pytest.fixture
def restored_output() -> Iterator[None]:
    """Give the loggers their first sink back after a test that configured another."""
    yield
    logs.configure()
    logs._OUTPUT.losses = Losses()
    logs.configure()
