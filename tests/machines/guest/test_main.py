"""The guest's program: its arguments, and the service that runs it."""

from pathlib import Path

from tests.machines.guest.main import arguments

_SERVICE = Path(__file__).with_name("machines.service")


def test_arguments_are_those_of_the_kernels_command_line() -> None:
    line = "console=ttyS0 root=/dev/vda machines.suite=a.phases machines.phases=x,y quiet\n"
    assert arguments(line) == {"suite": "a.phases", "phases": "x,y"}


def test_the_kernel_never_ends_the_guests_program() -> None:
    lines = _SERVICE.read_text().splitlines()
    assert "OOMScoreAdjust=-1000" in lines
    assert "OOMPolicy=continue" in lines
