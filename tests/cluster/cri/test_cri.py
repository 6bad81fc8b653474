"""One test per phase and check of the virtual machine."""

import pytest

from tests.cluster.cri.machine import SUITE
from tests.machines.runs import Report

# The first test waits for the machine, and for what is not cached.
pytestmark = pytest.mark.timeout(7200)


@pytest.mark.parametrize(("phase", "check"), SUITE.names)
def test_check(machine_report: Report, phase: str, check: str) -> None:
    machine_report.expect(phase, check)


def test_run_is_complete(machine_report: Report) -> None:
    assert not machine_report.error
