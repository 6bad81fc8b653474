"""A launched plugin in a virtual world: configuration, old runtimes, the switch to external."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.daemon import launched
from nri_numamem.daemon.external import DEFAULT_SOCKET
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.launched import CONNECT_TRIES, LaunchedService
from nri_numamem.daemon.supervisor_status import SupervisorStatus
from nri_numamem.engine.engine import Engine
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.plugin_file import Setting, StartMode, read_plugin_file
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.fake_sysfs import overlay_of, write_overlay
from tests.laboratory.version import RuntimeVersion
from tests.virtual.log import MemoryLog
from tests.virtual.runtime import VirtualRuntime
from tests.virtual.system import Machinery
from tests.virtual.world import World

GI = 1 << 30


class Launch:
    """A host of two nodes with 4 GiB each, whose runtime launches the plugin."""

    def __init__(self, root: Path, status: SupervisorStatus) -> None:
        nodes = tuple(NumaNode(node, 4 * GI, cpus=CpuSet([node])) for node in range(2))
        write_overlay(overlay_of(Machine(nodes)), root)
        self.world = World()
        self.machinery = Machinery(self.world)
        self.runtime = VirtualRuntime(self.machinery, DEFAULT_SOCKET)
        self.runtime.config = f"logFile: {root}/log\nstateFile: ''\nreservedMemory: []\n"
        self.log = MemoryLog()
        self.status = status
        roots = HostRoots(root / "sys", root / "proc", root / "cgroup")
        self.service = LaunchedService(self.log, roots, self.machinery.system(), status)
        self.service._runtime_pid = self.machinery.network.runtime_pid

    def old(self, runtime_version: str = "v1.7.24") -> None:
        """Let the runtime be one with NRI 0.6.1, which never synchronizes launched plugins."""
        self.runtime.version = RuntimeVersion("containerd", runtime_version, (0, 6, 1))

    def overrun(self, after_calls: int) -> None:
        """Let Configure take too long: it overruns after so many function calls."""
        interruption = self.machinery.interruption
        interruption.error, interruption.after_calls = Overrun, after_calls

    def run(self, seconds: float = 5.0) -> int:
        self.world.after(seconds, self.runtime.stop)
        channel = self.runtime.launch()
        return self.world.run(lambda: self.service.run(channel, Identity()))

    @property
    def events(self) -> list[str]:
        return self.log.events


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    status = SupervisorStatus()
    yield Launch(tmp_path, status)
    status.close()
    logs.configure()


def test_the_runtime_configures_and_synchronizes_the_plugin(launch: Launch) -> None:
    pod = objects.pod("db", memory_limit_bytes=GI)
    container = objects.container(pod, "server", memory_limit_bytes=GI)
    replies: list[api.CreateContainerResponse | None] = []
    should_restart: list[bool] = []
    launch.world.after(1, lambda: launch.runtime.run_pod(pod))
    launch.world.after(2, lambda: replies.append(launch.runtime.create(pod, container)))
    launch.world.after(3, lambda: should_restart.append(launch.status.should_restart))
    assert launch.run() == 0
    (created,) = replies
    assert created is not None
    assert created.adjust.linux.resources.cpu.mems == "0"
    assert should_restart == [True]
    assert launch.status.take_disconnected()
    assert launch.status.configuration() == launch.runtime.config
    assert launch.events == [
        "machine",
        "configured",
        "synchronized",
        "admitted",
        "plugin_exited",
    ]


def test_the_configuration_of_the_runtime_is_described(launch: Launch, tmp_path: Path) -> None:
    state_file = tmp_path / "nri_numamem_state"
    launch.runtime.config = f"logFile: {tmp_path}/log\nstateFile: {state_file}\n"
    assert launch.run() == 0
    facts = read_plugin_file(tmp_path / "plugin.json")
    assert facts is not None
    assert facts.mode is StartMode.LAUNCHED
    assert facts.settings["stateFile"] == Setting(str(state_file), "NRI configuration:2")
    assert facts.runtime is not None
    assert facts.runtime.name == launch.runtime.version.runtime_name


def test_a_signal_ends_the_plugin_on_purpose(launch: Launch) -> None:
    launch.world.after(3, launch.machinery.signals.stop)
    assert launch.run() == 0
    assert not launch.status.should_restart


def test_why_it_ends_is_recorded_before_the_runtime_can_kill_it(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime with NRI 0.7 kills a launched plugin as soon as its connection ends."""
    seen: list[tuple[list[str], bool, bool]] = []

    def flush() -> None:
        is_closed = launch.runtime.newest.is_closed
        seen.append((launch.events, is_closed, launch.status.should_restart))

    launch.world.after(3, launch.machinery.signals.stop)
    monkeypatch.setattr(logs, "flush", flush)
    assert launch.run() == 0
    events, is_closed, should_restart = seen[0]
    assert events[-1] == "plugin_exited"
    assert not is_closed
    assert not should_restart


def test_an_unusable_configuration_is_rejected(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[list[str]] = []
    monkeypatch.setattr(logs, "flush", lambda: flushed.append(list(launch.events)))
    launch.runtime.config = "logLevel: loud\n"
    assert launch.run() == 0
    # Before the reply, and before the channel is closed: then the runtime kills the process.
    assert flushed == [["configuration_rejected"], launch.events, launch.events]
    assert "loud" in launch.runtime.plugin.why_closed
    assert launch.events == ["configuration_rejected", "plugin_exited"]
    assert launch.status.is_configured


def test_a_machine_that_contradicts_the_configuration_is_no_crash(launch: Launch) -> None:
    launch.runtime.config += "reservedMemory: [{numaNode: 9, limits: {memory: 1Gi}}]\n"
    launch.runtime.config = launch.runtime.config.replace("reservedMemory: []\n", "")
    assert launch.run() == 0
    assert launch.events == ["configuration_rejected", "plugin_exited"]
    assert launch.status.is_configured
    assert not launch.status.should_restart


def test_an_old_runtime_keeps_a_plugin_without_an_engine(launch: Launch) -> None:
    launch.old("v1.6.0")
    launch.runtime.config = "logLevel: loud\n"
    pod = objects.pod("db", memory_limit_bytes=GI)
    open_after: list[bool] = []

    def run_pod() -> None:
        launch.runtime.run_pod(pod)
        open_after.append(not launch.runtime.plugin.why_closed)

    launch.world.after(1, run_pod)
    assert launch.run() == 0
    assert launch.runtime.plugin.calls == ["Configure", "StateChange"]
    assert open_after == [True]
    assert launch.events[:2] == ["configuration_failed_inactive", "runtime_never_synchronizes"]
    assert launch.service.engine is None


def test_a_plugin_of_an_old_runtime_continues_as_an_external_one(launch: Launch) -> None:
    launch.old()
    pod = objects.pod("db", memory_limit_bytes=GI)
    launch.runtime.pods.append(pod)
    launch.runtime.containers.append(objects.container(pod, "server", memory_limit_bytes=GI))
    launch.world.after(10, launch.runtime.start)
    assert launch.run(20) == 0
    first, second = launch.runtime.served
    assert not first.is_synchronized
    assert second.is_synchronized
    assert launch.service.engine is not None
    assert list(launch.service.engine.state.accounting.assignments) == [pod.uid]
    (switched,) = launch.log.named("switched_to_external")
    assert switched["cause"] == "an external plugin is synchronized"


def test_a_runtime_that_never_listens_is_logged(launch: Launch) -> None:
    launch.old()
    assert launch.run(CONNECT_TRIES * 3.0) == 0
    (record,) = launch.log.named("runtime_never_synchronizes")
    assert "No such file" in str(record["cause"])


def test_another_process_at_the_socket_is_not_connected_to(launch: Launch) -> None:
    launch.old()
    launch.runtime.start()
    launch.machinery.network.runtime_pid = 1
    assert launch.run(CONNECT_TRIES * 3.0) == 0
    (record,) = launch.log.named("runtime_never_synchronizes")
    assert "process 1 listens there, not 4711" in str(record["cause"])


@pytest.mark.parametrize("after_calls", [0, 1, 2, 3, 5, 10, 50])
def test_a_configuration_that_takes_too_long_is_applied_after_the_reply(
    launch: Launch, after_calls: int
) -> None:
    """Wherever the time limit ends it, before anything was read included."""
    launch.overrun(after_calls)
    assert launch.run() == 0
    assert launch.runtime.plugin.events not in (0, launch.runtime.version.event_mask)
    assert launch.runtime.newest.is_synchronized
    assert "request_timed_out" in launch.events
    assert launch.service.engine is not None


@pytest.mark.parametrize(
    ("config", "expected", "status"),
    [("", "configuration_failed_exiting", 1), ("x: y\n", "configuration_failed_inactive", 0)],
)
def test_a_late_configuration_can_fail(
    launch: Launch,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    expected: str,
    status: int,
) -> None:
    def build(*_arguments: object) -> Engine:
        raise ZeroDivisionError

    monkeypatch.setattr(launched, "build_engine", build)
    launch.runtime.config += config
    launch.overrun(6)
    assert launch.run() == status
    assert expected in launch.events


@pytest.mark.parametrize(
    "environment",
    [
        {"NRI_PLUGIN_SOCKET": "three", "NRI_PLUGIN_NAME": "numamem"},
        {"NRI_PLUGIN_SOCKET": "3"},
    ],
)
def test_an_incomplete_environment_is_status_2(environment: dict[str, str]) -> None:
    assert launched.main(environment) == 2
    logs.configure()
