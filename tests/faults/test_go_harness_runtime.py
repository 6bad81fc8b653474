"""A line of the harness's log is the end of the present connection, or of the one before."""

import socket
from pathlib import Path

import pytest

from tests.faults import go_harness_runtime
from tests.faults.conftest import plugin_of, through
from tests.faults.go_harness_runtime import GoHarnessRuntime
from tests.faults.proxy import SocketProxy


def test_a_late_line_of_the_connection_before_is_no_end(
    proxy: SocketProxy, target: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_harness_runtime, "_CLOSE_S", 0.05)
    runtime = GoHarnessRuntime("nri-0.12.5", tmp_path, proxy, {"request-timeout": "800ms"})
    lines = 0
    monkeypatch.setattr(runtime, "_drops", lambda: lines)
    with plugin_of(tmp_path), through(proxy, target, tmp_path) as accepted:
        assert not runtime.is_dropped()
        lines = 1
        assert not runtime.is_dropped()
        accepted.close()
        assert not runtime.is_dropped()  # that line was of the connection before
        lines = 2
        monkeypatch.setattr(go_harness_runtime, "_CLOSE_S", 30.0)
        assert runtime.is_dropped()
