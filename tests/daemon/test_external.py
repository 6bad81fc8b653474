"""The plugin as a service, on a virtual clock: connections that come, go and fail."""

import errno
import itertools
from pathlib import Path

import pytest

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.connection import ConnectionResult
from nri_numamem.daemon.external import (
    AWAY_SHORT_S,
    PAUSE_MAX_S,
    PAUSE_MIN_S,
    PAUSE_REFUSED_S,
    STEADY_S,
    Backoff,
    ExternalPlugin,
)
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.service import Service
from nri_numamem.nri.event_loop import TICK_S, Ended
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.host_files import HostFiles
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.virtual.log import MemoryLog
from tests.virtual.runtime import VirtualRuntime
from tests.virtual.system import Machinery
from tests.virtual.world import VirtualProcess, World

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
    began_world_s = world.now_s
    service = host.run()
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


def test_an_idle_plugin_wakes_up_for_ticks_only(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, resume = host.world, VirtualProcess.resume
    woken_at_s: list[float] = []

    def wake_up(process: VirtualProcess) -> None:
        woken_at_s.append(world.now_s)
        resume(process)

    monkeypatch.setattr(VirtualProcess, "resume", wake_up)
    begin_s = world.now_s
    host.runtime.start()
    world.after(601, host.stop)
    host.run()
    ticks = [at_s for at_s in woken_at_s if 1 < at_s - begin_s <= 600]
    assert len(ticks) == 600 / TICK_S


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


def next_pauses(backoff: Backoff, now_s: float, count: int) -> list[float]:
    return [backoff.next_s(now_s, 0.0) for _ in range(count)]


def test_pauses_grow_and_start_anew_after_a_steady_connection() -> None:
    backoff = Backoff(0.0)
    backoff.connected(pid=7)
    doubled = [PAUSE_MIN_S * 2**number for number in range(8)]
    assert next_pauses(backoff, 0.0, 10) == [*doubled, PAUSE_MAX_S, PAUSE_MAX_S]
    backoff.disconnected(result(Ended.EOF, registered=True), STEADY_S - 0.1)
    backoff.disconnected(result(Ended.EOF, registered=False), STEADY_S)
    backoff.connected(pid=7)
    assert next_pauses(backoff, 0.0, 1) == [PAUSE_MAX_S]
    backoff.disconnected(result(Ended.EOF, registered=True), STEADY_S)
    assert backoff.next_s(0.0, 0.5) == pytest.approx(1.1 * PAUSE_MIN_S)
    backoff.disconnected(result(Ended.FINISHED, registered=False), 0.1)
    assert next_pauses(backoff, 0.0, 2) == [PAUSE_REFUSED_S] * 2


def test_pauses_are_short_for_a_minute_after_the_runtime_left() -> None:
    backoff = Backoff(100.0)
    assert next_pauses(backoff, 100.0 + AWAY_SHORT_S - 1, 100) == [PAUSE_MIN_S] * 100
    assert next_pauses(backoff, 100.0 + AWAY_SHORT_S, 2) == [PAUSE_MIN_S, 2 * PAUSE_MIN_S]
    backoff.connect_failed(200.0)
    assert next_pauses(backoff, 200.0, 1) == [4 * PAUSE_MIN_S]
    backoff.connected(pid=7)
    next_pauses(backoff, 200.0, 5)
    backoff.connect_failed(300.0)
    assert next_pauses(backoff, 300.0, 3) == [PAUSE_MIN_S] * 3


def test_pauses_start_anew_for_another_process() -> None:
    backoff = Backoff(0.0)
    backoff.connected(pid=7)
    next_pauses(backoff, 0.0, 5)
    backoff.connected(pid=8)
    assert next_pauses(backoff, 0.0, 1) == [PAUSE_MIN_S]


@pytest.mark.parametrize("up_s", [0.05, 0.4, 3.0])
@pytest.mark.parametrize("down_s", [0.01, 0.4, 3.0])
def test_a_flapping_runtime_gets_the_plugin_back_at_once(
    host: Host, up_s: float, down_s: float
) -> None:
    """12 kills; the plugin is synchronized half a second after the last start."""
    runtime, world = host.runtime, host.world
    last_start_s = 0.0

    def restart(times: int) -> None:
        nonlocal last_start_s
        runtime.stop()
        host.machinery.network.runtime_pid += 1
        world.after(down_s, runtime.start)
        last_start_s = world.now_s + down_s
        if times > 1:
            world.after(down_s + up_s, lambda: restart(times - 1))

    synchronized: list[bool] = []
    runtime.start()
    world.after(20, lambda: restart(12))
    end_s = 20 + 12 * (up_s + down_s) + 1
    world.after(end_s, lambda: synchronized.append(runtime.newest.is_synchronized))
    world.after(end_s, lambda: synchronized.append(not runtime.newest.is_closed))
    world.after(end_s + 1, host.stop)
    host.run()
    assert synchronized == [True, True]
    newest_s = runtime.newest.accepted_at_s
    assert last_start_s <= newest_s <= last_start_s + 0.5


def test_a_runtime_that_stays_away_is_tried_at_growing_intervals(host: Host) -> None:
    attempts: list[float] = []
    connector = host.machinery.network

    class Counting(dict[Path, object]):
        def __contains__(self, _key: object) -> bool:
            attempts.append(host.world.now_s)
            return False

    connector.listeners = Counting()  # type: ignore[assignment]
    host.world.after(600, host.stop)
    began_s = host.world.now_s
    host.run()
    first_minute = [at_s for at_s in attempts if at_s - began_s < AWAY_SHORT_S]
    assert AWAY_SHORT_S / (PAUSE_MIN_S * 1.2) <= len(first_minute) <= AWAY_SHORT_S / PAUSE_MIN_S + 1
    assert len(attempts) - len(first_minute) < 30
    pauses = [later - at_s for at_s, later in itertools.pairwise(attempts)]
    assert max(pauses) <= PAUSE_MAX_S * 1.2
    assert host.log.events.count("connect_failed") == 1


def test_without_a_free_descriptor_for_the_peers_pid_it_connects_later(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.runtime.start()
    connector = type(host.machinery.system().connector)
    healthy, errors = connector.peer_pid, [OSError(errno.EMFILE, "Too many open files")]

    def peer_pid(self: object, channel: object) -> int:
        if errors:
            raise errors.pop()
        return healthy(self, channel)  # type: ignore[arg-type]

    monkeypatch.setattr(connector, "peer_pid", peer_pid)
    host.world.after(10, host.stop)
    host.run()
    assert host.runtime.newest.is_synchronized
    (record,) = host.log.named("connect_failed")
    assert "Too many open files" in str(record["cause"])
