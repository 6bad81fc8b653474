"""Messages to systemd, received on a socket of the test's own."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.observe.systemd import Notifier


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    path = str(tmp_path / "notify")
    name, address = (path, path) if request.param == "path" else (f"@{path}", f"\0{path}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(10)
        yield sock, name


def test_notifications_have_the_format_of_sd_notify(systemd: tuple[socket.socket, str]) -> None:
    sock, name = systemd
    notifier = Notifier({"NOTIFY_SOCKET": name})
    notifier.ready("registered\nREADY=0")
    notifier.status("waiting")
    notifier.stopping()
    got = [sock.recv(4096) for _ in range(3)]
    assert got == [b"READY=1\nSTATUS=registered READY=0", b"STATUS=waiting", b"STOPPING=1"]


def test_alive_is_sent_twice_within_the_limit(
    systemd: tuple[socket.socket, str],
) -> None:
    sock, name = systemd
    variables = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "42"}
    notifier = Notifier(variables, pid=42)
    assert notifier.watchdog_s == 10
    for now_s in (100.0, 104.9, 105.0, 109.9):
        notifier.alive(now_s)
    notifier.status("end")
    assert [sock.recv(99), sock.recv(99), sock.recv(99)] == [b"WATCHDOG=1"] * 2 + [b"STATUS=end"]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "10", "WATCHDOG_PID": "41"},
    ],
)
def test_without_a_limit_alive_is_not_sent(
    systemd: tuple[socket.socket, str], variables: dict[str, str]
) -> None:
    sock, name = systemd
    notifier = Notifier({"NOTIFY_SOCKET": name, **variables}, pid=42)
    assert notifier.watchdog_s is None
    notifier.alive(100.0)
    notifier.status("end")
    assert sock.recv(99) == b"STATUS=end"


def test_a_socket_without_reader_is_no_error(tmp_path: Path) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "none")}).ready("up")
    Notifier({}).ready("up")


def test_a_slow_reader_does_not_block(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        notifier = Notifier({"NOTIFY_SOCKET": path})
        for _ in range(5000):
            notifier.status("x" * 200)
