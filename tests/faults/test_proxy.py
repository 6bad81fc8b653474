"""The proxy between plugin and runtime: cut, stalled, held back."""

import socket
from pathlib import Path

import pytest

from tests.faults.conftest import WAIT_S, plugin_of, through
from tests.faults.proxy import SocketProxy


def test_connections_wait_until_they_are_accepted(
    proxy: SocketProxy, target: socket.socket, tmp_path: Path
) -> None:
    with plugin_of(tmp_path) as gone:
        gone.sendall(b"first")
    with plugin_of(tmp_path) as plugin:
        plugin.sendall(b"hello")
        target.settimeout(0.05)
        with pytest.raises(TimeoutError):
            target.accept()
        with through(proxy, target, tmp_path) as runtime:
            assert runtime.recv(100) == b"hello"
            runtime.sendall(b"request")
            assert plugin.recv(100) == b"request"


def test_a_reply_is_lost(proxy: SocketProxy, target: socket.socket, tmp_path: Path) -> None:
    with plugin_of(tmp_path) as plugin, through(proxy, target, tmp_path) as runtime:
        requests: list[bytes] = []
        proxy.on_request = lambda: requests.append(b"seen")
        proxy.cut_at_reply()
        runtime.sendall(b"request")
        assert plugin.recv(100) == b"request"
        plugin.sendall(b"reply")
        assert runtime.recv(100) == b""
        assert plugin.recv(100) == b""
        assert requests == [b"seen"]
        assert not proxy.is_connected


def test_a_stalled_side_reads_later(
    proxy: SocketProxy, target: socket.socket, tmp_path: Path
) -> None:
    with plugin_of(tmp_path) as plugin, through(proxy, target, tmp_path) as runtime:
        proxy.stall()
        runtime.sendall(b"request")
        assert plugin.recv(100) == b"request"
        plugin.sendall(b"reply")
        runtime.settimeout(0.05)
        with pytest.raises(TimeoutError):
            runtime.recv(100)
        proxy.resume_reading()
        runtime.settimeout(WAIT_S)
        assert runtime.recv(100) == b"reply"


def test_without_a_runtime_or_a_plugin(proxy: SocketProxy, tmp_path: Path) -> None:
    assert not proxy.connect(tmp_path / "runtime.sock", 0.01)
    with plugin_of(tmp_path) as plugin:
        assert not proxy.connect(tmp_path / "runtime.sock", WAIT_S)
        assert plugin.recv(100) == b""
    proxy.stop_listening()
    assert not (tmp_path / "plugin.sock").exists()


def test_the_end_of_a_connection_is_awaited(
    proxy: SocketProxy, target: socket.socket, tmp_path: Path
) -> None:
    with plugin_of(tmp_path), through(proxy, target, tmp_path) as runtime:
        assert not proxy.wait_closed(0.05)
        runtime.close()
        assert proxy.wait_closed(WAIT_S)
