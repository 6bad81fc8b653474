"""FakeRuntime and PluginSession, connected by a socket pair."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Adjustment, Plan, Update
from nri_numamem.nri.configuration import (
    SUBSCRIPTION,
    WITH_POD_UPDATES,
    Configuration,
)
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.event_loop import EventLoop
from nri_numamem.nri.poller import HostClock, SelectorPoller
from nri_numamem.nri.session import PluginSession
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.laboratory.version import RuntimeVersion

_VERSIONS = [(0, 3, 0), (0, 6, 1), (0, 8, 0), (0, 9, 1), (0, 10, 0), (0, 11, 0), (0, 12, 2)]


class _Handler:
    """Place every container on node 1, except those named "refused"."""

    def __init__(self) -> None:
        self.configuration: Configuration | None = None
        self.events: list[events.Event] = []

    def configure(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def decide(self, event: events.Event) -> Plan:
        self.events.append(event)
        match event:
            case events.CreateContainer(container=events.Container(name="refused")):
                return Plan(refusal="no room")
            case events.CreateContainer():
                return Plan(Adjustment("1", {2 << 20: 4 << 20}))
            case events.Synchronize(containers=containers):
                return Plan(updates=tuple(Update(c.container_id, "2") for c in containers))
        return Plan()


Connect = Callable[..., tuple[FakeRuntime, _Handler]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as stack:

        def connected(runtime: FakeRuntime) -> tuple[FakeRuntime, _Handler]:
            handler = _Handler()
            session = PluginSession(handler, Decoder(), plugin_name="numamem", plugin_idx="10")
            ours, theirs = socket.socketpair()
            theirs.setblocking(False)  # noqa: FBT003 - its only argument
            wake, waker = socket.socketpair()
            loop = EventLoop(
                theirs,
                session,
                poller=SelectorPoller(),
                clock=HostClock(),
                after_replies=lambda: None,
                wake=wake,
                on_wake=lambda: bool(wake.recv(1)),
                on_tick=lambda: None,
            )
            thread = threading.Thread(target=loop.run, args=(session.start(),), daemon=True)
            for sock in (theirs, wake, waker):
                stack.enter_context(sock)
            stack.callback(thread.join, 10.0)
            stack.enter_context(runtime)
            thread.start()
            runtime.attach(ours)
            return runtime, handler

        yield connected


def _check_wire(runtime: FakeRuntime) -> None:
    assert runtime.plugin is not None
    assert runtime.plugin.why_closed == ""
    assert runtime.plugin.connection.recorder.violations == []
    assert not runtime.plugin.connection.recorder.incomplete()
    assert runtime.plugin.connection.requests_received == ["RegisterPlugin"]
    assert runtime.ignored_errors == []


@pytest.mark.parametrize("nri_version", _VERSIONS)
@pytest.mark.parametrize("name", ["containerd", "cri-o"])
def test_the_life_of_a_pod_on_every_version(
    connect: Connect, name: str, nri_version: tuple[int, int, int]
) -> None:
    version = RuntimeVersion(name, "1.0.0", nri_version)
    runtime, handler = connect(FakeRuntime(version, configure_first=nri_version[1] % 2 == 0))
    runtime.synchronize()
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    container = objects.container(pod, "server", memory_limit_bytes=1 << 30)
    created = runtime.create_container(pod, container)
    assert created.linux.resources.cpu.mems == "1"
    assert created.linux.resources.unified["hugetlb.2MB.max"] == str(4 << 20)
    runtime.start_container(created)
    runtime.update_container(created, api.LinuxResources(cpu=api.LinuxCPU(cpus="0-3")))
    with pytest.raises(PluginRefused, match="no room"):
        runtime.create_container(pod, objects.container(pod, "refused"))
    runtime.stop_pod_sandbox(pod)
    runtime.remove_pod_sandbox(pod)
    undone = [] if version.is_crio else [events.StopContainer, events.RemoveContainer]
    assert [type(event) for event in handler.events] == [
        events.Synchronize,
        events.RunPodSandbox,
        events.CreateContainer,
        events.UpdateContainer,
        events.CreateContainer,
        *undone,
        events.StopContainer,
        events.StopPodSandbox,
        events.RemoveContainer,
        events.RemovePodSandbox,
    ]
    assert runtime.plugin is not None
    has_version = nri_version >= (0, 12, 0)
    assert runtime.plugin.events == (WITH_POD_UPDATES if has_version else SUBSCRIPTION)
    assert runtime.plugin.uses_state_change == (nri_version < (0, 12, 0))
    _check_wire(runtime)


def test_the_fields_of_configure(connect: Connect) -> None:
    _, handler = connect(FakeRuntime(RuntimeVersion("v2", "2.0.1", (0, 8, 0))))
    assert handler.configuration == Configuration("", "v2", "2.0.1", None, 2000)
    _, handler = connect(FakeRuntime(RuntimeVersion("containerd", "v2.4.0", (0, 12, 2))))
    assert handler.configuration is not None
    assert handler.configuration.nri_version == "v0.12.2"


@pytest.mark.parametrize(
    ("nri_version", "in_parts"), [((0, 6, 1), False), ((0, 12, 0), True)], ids=["whole", "parts"]
)
def test_a_large_synchronize_moves_every_container(
    connect: Connect, nri_version: tuple[int, int, int], *, in_parts: bool
) -> None:
    before = FakeRuntime()
    pod = before.run_pod_sandbox(objects.pod("db"))
    for number in range(1000):
        before.create_container(pod, objects.container(pod, f"c{number}"))
    version = RuntimeVersion("containerd", "v1.7.24", nri_version)
    runtime, handler = connect(
        FakeRuntime(version, store=before.store, sync_limit_bytes=700_000, request_timeout_s=30.0)
    )
    assert len(runtime.synchronize()) == 1000
    assert len(handler.events) == 1
    assert {c.linux.resources.cpu.mems for c in runtime.store.alive()} == {"2"}
    assert runtime.plugin is not None
    assert (runtime.plugin.calls.count("Synchronize") > 5) == in_parts
    _check_wire(runtime)
