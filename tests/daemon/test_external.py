"""The plugin as a service, on a virtual clock: connections that come, go and fail."""

import time
from pathlib import Path

import pytest

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.connection import ConnectionResult
from nri_numamem.daemon.external import (
    PAUSE_MAX_S,
    PAUSE_REFUSED_S,
    STEADY_S,
    Backoff,
    ExternalPlugin,
)
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.service import Service, build_engine
from nri_numamem.fake_runtime import objects
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.event_loop import Ended
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.host_files import HostFiles
from tests.virtual.log import MemoryLog
from tests.virtual.runtime import VirtualRuntime
from tests.virtual.system import Machinery
from tests.virtual.world import World

GI = 1 << 30
SOCKET = Path("/run/nri.sock")


class Host:
    """A machine of two nodes with 4 GiB each, its runtime and its plugin in a virtual world."""

    def __init__(self, root: Path) -> None:
        nodes = tuple(
            NumaNode(number, 4 * GI, {}, CpuSet([number]), {number: 10, 1 - number: 21})
            for number in range(2)
        )
        self.world = World()
        self.machinery = Machinery(self.world)
        self.runtime = VirtualRuntime(self.machinery, SOCKET)
        self.log = MemoryLog()
        self.state_file = root / "state"
        self.identity = Identity()
        self._roots = HostFiles(root, Machine(nodes)).roots

    def stop(self) -> None:
        """Send SIGTERM to the plugin."""
        self.machinery.signals.stop()

    def run(self) -> Service:
        """Run the plugin until it is stopped; return what is left of it."""
        return self.world.run(self._main)

    def _main(self) -> Service:
        settings = Settings(state_file=str(self.state_file))
        system = self.machinery.system()
        service = Service(self.log, self._roots, system)
        service.start(build_engine(settings, self._roots), settings, "started as a test")
        ExternalPlugin(service, system, self.machinery.signals, SOCKET, self.identity).run()
        service.close()
        return service


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_plugin_outlives_its_runtime(host: Host) -> None:
    """Connect, Synchronize, CreateContainer, disconnect, connect again: minutes in milliseconds."""
    runtime, world = host.runtime, host.world
    pod = objects.pod("db", memory_limit_bytes=2 * GI)
    container = objects.container(pod, "server", memory_limit_bytes=2 * GI)
    replies: list[api.CreateContainerResponse | None] = []
    world.after(20, runtime.start)
    world.after(60, lambda: runtime.run_pod(pod))
    world.after(61, lambda: replies.append(runtime.create(pod, container)))
    world.after(100, runtime.stop)
    world.after(130, runtime.start)
    world.after(200, host.stop)
    began_s, began_world_s = time.monotonic(), world.now_s
    service = host.run()
    assert time.monotonic() - began_s < 2
    assert 200 <= world.now_s - began_world_s < 202
    (created,) = replies
    assert created is not None
    assert created.adjust.linux.resources.cpu.mems == "0"
    assert runtime.registrations == [("nri-numamem", "10")] * 2
    assert [served.is_synchronized for served in runtime.served] == [True, True]
    assert host.log.events == [
        "machine",
        "connect_failed",
        "configured",
        "synchronized",
        "admitted",
        "disconnected",
        "connect_failed",
        "configured",
        "adopted",
        "synchronized",
    ]
    assert service.engine is not None
    assert list(service.engine.state.accounting.assignments) == [pod.uid]
    assert b"server" in host.state_file.read_bytes()


def test_a_registration_that_is_rejected_is_not_repeated_soon(host: Host) -> None:
    host.identity = Identity("no such name")
    host.runtime.start()
    host.world.after(PAUSE_REFUSED_S - 1, host.stop)
    host.run()
    assert len(host.runtime.registrations) == 1
    assert host.log.named("registration_rejected")


def test_a_peer_of_another_protocol_is_disconnected(host: Host) -> None:
    host.runtime.start()
    host.world.after(0.5, lambda: host.runtime.send_raw(b"\xff" * 64))
    host.world.after(5, host.stop)
    host.run()
    assert len(host.runtime.served) == 2
    assert host.runtime.served[0].is_closed
    assert "disconnected" in host.log.events


def test_a_request_that_takes_too_long_gets_a_reply_and_has_not_happened(host: Host) -> None:
    runtime, world = host.runtime, host.world
    pod = objects.pod("db", memory_limit_bytes=GI)
    container = objects.container(pod, "server", memory_limit_bytes=GI)
    replies: list[api.CreateContainerResponse | None] = []

    def create_late() -> None:
        interruption = host.machinery.interruption
        interruption.error, interruption.after_calls = Overrun, 20
        replies.append(runtime.create(pod, container))

    runtime.start()
    world.after(5, lambda: runtime.run_pod(pod))
    world.after(6, create_late)
    world.after(10, host.stop)
    service = host.run()
    assert host.machinery.interruption.error is None
    assert replies == [api.CreateContainerResponse()]
    assert len(host.log.named("request_timed_out")) == 1
    assert service.engine is not None
    assert service.engine.state.accounting.assignments == {}


def result(ended: Ended, *, registered: bool) -> ConnectionResult:
    return ConnectionResult(ended, registered, "")


def test_pauses_grow_and_start_anew_after_a_steady_connection() -> None:
    backoff = Backoff()
    assert [backoff.next_s(0.0) for _ in range(7)] == [1, 2, 4, 8, 16, PAUSE_MAX_S, PAUSE_MAX_S]
    backoff.connected(result(Ended.EOF, registered=True), STEADY_S - 0.1)
    backoff.connected(result(Ended.EOF, registered=False), STEADY_S)
    assert backoff.next_s(0.0) == PAUSE_MAX_S
    backoff.connected(result(Ended.EOF, registered=True), STEADY_S)
    assert backoff.next_s(0.5) == pytest.approx(1.1)
    backoff.connected(result(Ended.FINISHED, registered=False), 0.1)
    assert [backoff.next_s(0.0) for _ in range(2)] == [PAUSE_REFUSED_S] * 2
