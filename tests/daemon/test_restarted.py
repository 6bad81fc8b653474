"""The worker after a crash, in a virtual world."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.daemon import restarted
from nri_numamem.daemon.external import DEFAULT_SOCKET
from nri_numamem.daemon.restarted import Restarted
from nri_numamem.daemon.supervisor import SupervisorStatus
from nri_numamem.host.fake_sysfs import overlay_of, write_overlay
from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import Machine, NumaNode
from nri_numamem.observe.log import loggers as logs
from tests.virtual.runtime import VirtualRuntime
from tests.virtual.system import Machinery
from tests.virtual.world import World

ENVIRONMENT = {"NRI_PLUGIN_NAME": "10-numamem", "NRI_PLUGIN_IDX": "10"}


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SupervisorStatus]:
    nodes = tuple(NumaNode(node, 1 << 32) for node in range(2))
    write_overlay(overlay_of(Machine(nodes)), tmp_path)
    roots = HostRoots(tmp_path / "sys", tmp_path / "proc", tmp_path / "cgroup")
    monkeypatch.setattr(restarted, "HostRoots", lambda: roots)
    found = SupervisorStatus()
    found.running(f"logFile: {tmp_path}/log\nlogFormat: json\nstateFile: {tmp_path}/state\n")
    yield found
    found.close()
    logs.configure()


def restart(machinery: Machinery, status: SupervisorStatus, traceback: str = "") -> int:
    worker = Restarted(ENVIRONMENT, status, 4711, machinery.system())
    return machinery.world.run(lambda: worker.restart("signal 9", traceback))


def log(root: Path) -> str:
    return (root / "log").read_text()


def test_a_worker_serves_an_external_connection(status: SupervisorStatus, tmp_path: Path) -> None:
    machinery = Machinery(World())
    runtime = VirtualRuntime(machinery, DEFAULT_SOCKET)
    runtime.start()
    machinery.world.after(5, runtime.stop)
    assert restart(machinery, status, "traceback") == 0
    assert runtime.registrations == [("numamem", "10")]
    assert runtime.newest.is_synchronized
    text = log(tmp_path)
    for event in ("restarting_after_crash", "traceback", "synchronized", "plugin_exited"):
        assert event in text


def test_a_worker_whose_connection_fails_is_restarted(status: SupervisorStatus) -> None:
    machinery = Machinery(World())
    runtime = VirtualRuntime(machinery, DEFAULT_SOCKET)
    runtime.start()
    machinery.world.after(2, lambda: runtime.send_raw(b"\xff" * 64))
    assert restart(machinery, status) == 1


def test_without_a_socket_a_worker_ends(status: SupervisorStatus, tmp_path: Path) -> None:
    assert restart(Machinery(World()), status) == 0
    assert "restart_failed" in log(tmp_path)
    assert "No such file" in log(tmp_path)


def test_a_worker_connects_to_no_other_process(status: SupervisorStatus, tmp_path: Path) -> None:
    machinery = Machinery(World())
    runtime = VirtualRuntime(machinery, DEFAULT_SOCKET)
    runtime.start()
    machinery.network.runtime_pid = 1
    assert restart(machinery, status) == 0
    assert "process 1 listens there, not 4711" in log(tmp_path)
    assert runtime.registrations == []


def test_the_last_start_is_logged(status: SupervisorStatus, tmp_path: Path) -> None:
    worker = Restarted(ENVIRONMENT, status, 4711, Machinery(World()).system())
    assert worker.abandon("signal 9", "") == 0
    assert "restart_limit_reached" in log(tmp_path)
