"""The service under systemd: the notifications of the process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost


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
