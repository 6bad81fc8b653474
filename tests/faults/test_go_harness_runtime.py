"""Whether a runtime's log line is the end of the present connection, or of the one before."""

import socket
from pathlib import Path

import pytest

from tests.faults import go_harness_runtime
from tests.faults.go_harness_runtime import GoHarnessRuntime
from tests.faults.proxy import SocketProxy


def test_a_late_line_of_the_connection_before_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_harness_runtime, "_CLOSE_S", 0.05)
    proxy = SocketProxy(tmp_path / "plugin.sock")
    proxy.open()
    runtime = GoHarnessRuntime("nri-0.12.5", tmp_path, proxy, {"request-timeout": "800ms"})
    lines = 0
    monkeypatch.setattr(runtime, "_drops", lambda: lines)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as plugin:
        listener.bind(str(tmp_path / "runtime.sock"))
        listener.listen()
        plugin.connect(str(tmp_path / "plugin.sock"))
        assert proxy.connect(tmp_path / "runtime.sock", 30)
        accepted, _ = listener.accept()
        assert not runtime.is_dropped()
        lines = 1
        assert not runtime.is_dropped()
        accepted.close()
        assert not runtime.is_dropped()  # that line was of the connection before
        lines = 2
        assert runtime.is_dropped()
    proxy.close()
