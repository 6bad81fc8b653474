"""What tests of whole processes share: a simulated host, whose processes end with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulated_host import SimulatedHost


@pytest.fixture
def simulated_host(tmp_path: Path) -> Iterator[SimulatedHost]:
    host = SimulatedHost(tmp_path)
    yield host
    host.close()
