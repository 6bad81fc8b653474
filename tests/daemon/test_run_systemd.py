"""The service under systemd: its unit, and the notifications of the process."""

from __future__ import annotations

import configparser
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli import main
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.daemon import external
from nri_numamem.fake_runtime.runtime import FakeRuntime
from nri_numamem.observe.log.loggers import LOG_FILE
from tests.simulated_host import SimulatedHost

UNIT = Path(__file__).parents[2] / "systemd" / "nri-numamem.service"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """Take the messages of services."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(30)
        yield sock


def test_ready_is_sent_after_registration_and_then_watchdog_messages(
    simulated_host: SimulatedHost, manager: socket.socket
) -> None:
    variables = {"NOTIFY_SOCKET": str(manager.getsockname()), "WATCHDOG_USEC": "1000000"}
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(environment=variables)
        runtime.accept(30)
        assert manager.recv(999) == b"READY=1\nSTATUS=registered with the runtime"
        assert manager.recv(999) == b"WATCHDOG=1"
        assert manager.recv(999) == b"WATCHDOG=1"
        assert simulated_host.stop(process) == 0
    rest = {manager.recv(999)}
    while b"STOPPING=1" not in rest:
        rest.add(manager.recv(999))
    assert rest <= {b"STOPPING=1", b"WATCHDOG=1"}


def test_the_unit_starts_without_a_runtime(
    simulated_host: SimulatedHost, manager: socket.socket
) -> None:
    variables = {"NOTIFY_SOCKET": str(manager.getsockname()), "WATCHDOG_USEC": "1000000"}
    process = simulated_host.start(environment=variables)
    first = manager.recv(999)
    assert first.startswith(b"READY=1\nSTATUS=waiting for the runtime: ")
    assert b"No such file" in first
    assert manager.recv(999) == b"WATCHDOG=1"
    assert simulated_host.stop(process) == 0


def test_the_end_of_the_runtime_is_reported_to_systemd(
    simulated_host: SimulatedHost, manager: socket.socket
) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(environment={"NOTIFY_SOCKET": str(manager.getsockname())})
        runtime.accept(30)
        assert manager.recv(999).startswith(b"READY=1")
    assert manager.recv(999) == b"STATUS=not connected: the runtime closed the connection"
    assert simulated_host.stop(process) == 0


def test_the_unit_names_what_exists() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert float(service["WatchdogSec"]) > 0
    program, command = service["ExecStart"].split()
    assert Path(program).name == "nri-numamem"
    assert command in main.COMMANDS
    assert Path("/var/log") / service["LogsDirectory"] == LOG_FILE.parent
    # The socket's and the configuration's directories are neither hidden nor private.
    for path in (external.DEFAULT_SOCKET, DEFAULT_CONFIG):
        assert not path.is_relative_to("/home")
        assert not path.is_relative_to("/tmp")


def test_the_unit_permits_the_plugins_sockets() -> None:
    """Sockets of the runtime, of uevents, and of metrics are permitted."""
    lines = UNIT.read_text().splitlines()
    (families,) = [line.partition("=")[2] for line in lines if line.startswith("RestrictAddressF")]
    assert set(families.split()) == {"AF_UNIX", "AF_NETLINK", "AF_INET", "AF_INET6"}
    assert not any(line.startswith(("PrivateNetwork=", "IPAddressDeny=")) for line in lines)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    installed = "/opt/nri-numamem/bin/nri-numamem"
    text = UNIT.read_text()
    assert installed in text
    copy.write_text(text.replace(installed, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []
