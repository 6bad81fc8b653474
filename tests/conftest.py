"""Settings of all tests, and what tests of several rooms share."""

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from tests.coverage_environment import coverage_variables
from tests.simulated_host import SimulatedHost

PROPERTY = Path(__file__).parent / "property"

# Machines are shared and noisy: the duration of an example means nothing. The examples are the same
# in each run; `make fuzz` draws new ones.
settings.register_profile(
    "numamem",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("numamem")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test-unit` leaves out: processes, and comparisons with oracles."""
    for item in items:
        uses_a_process = "simulated_host" in getattr(item, "fixturenames", ())
        code = getattr(getattr(item, "function", None), "__code__", None)
        uses_a_process |= code is not None and "subprocess" in code.co_names
        if uses_a_process or PROPERTY in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def simulated_host(tmp_path: Path) -> Iterator[SimulatedHost]:
    host = SimulatedHost(tmp_path)
    yield host
    host.close()


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    return importlib.import_module("tests.property.oracle")


@pytest.fixture(scope="session")
def worlds() -> ModuleType:
    return importlib.import_module("tests.property.worlds")


@pytest.fixture(autouse=True)
def measure_launched_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let coverage see plugins that a runtime launches: these get no environment but NRI's."""
    variables, spawn = coverage_variables(), os.posix_spawn
    if variables:
        monkeypatch.setattr(
            os,
            "posix_spawn",
            lambda path, arguments, environment, **options: spawn(
                path, arguments, {**environment, **variables}, **options
            ),
        )
