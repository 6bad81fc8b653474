import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from nri_numamem.ttrpc import Code, StatusError
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.plugin import Timeouts
from tests.laboratory.runtime import FakeRuntime, PluginRefused, ProtocolViolation
from tests.laboratory.table_plugin import ReplyFunction, TablePlugin
from tests.laboratory.version import RuntimeVersion

CRIO = RuntimeVersion("cri-o", "1.36.0", (0, 11, 0))
CONTAINERD_2_1 = RuntimeVersion("containerd", "v2.1.9", (0, 8, 0))

Run = Callable[..., tuple[FakeRuntime, TablePlugin]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Return a function that connects a runtime to a plugin with the events of old versions."""
    with ExitStack() as stack:

        def running(
            replies: Mapping[str, ReplyFunction] | None = None,
            version: RuntimeVersion | None = None,
            events: int = 0x7FF,
            **options: Any,  # noqa: ANN401 - FakeRuntime's own
        ) -> tuple[FakeRuntime, TablePlugin]:
            runtime = stack.enter_context(FakeRuntime(version, **options))
            ours, theirs = socket.socketpair()
            table_plugin = stack.enter_context(TablePlugin(theirs, replies, events=events))
            runtime.attach(ours)
            table_plugin.requests.clear()
            return runtime, table_plugin

        yield running


def _refuse(text: str = "no room", code: Code = Code.UNKNOWN) -> ReplyFunction:
    def reply(_payload: bytes) -> bytes:
        raise StatusError(code, text)

    return reply


def _mems(mems: str) -> ReplyFunction:
    response = api.CreateContainerResponse()
    response.adjust.linux.resources.cpu.mems = mems
    return lambda _payload: response.SerializeToString()


def _update(container_id: str, mems: str) -> api.ContainerUpdate:
    update = api.ContainerUpdate(container_id=container_id, ignore_failure=True)
    update.linux.resources.cpu.mems = mems
    return update


def _hurry(runtime: FakeRuntime) -> None:
    """Shorten the request timeout for a reply that never comes."""
    assert runtime.plugin is not None
    runtime.plugin.timeouts = Timeouts(request_s=0.5)


def _running(runtime: FakeRuntime, name: str = "db") -> tuple[api.PodSandbox, api.Container]:
    pod = runtime.run_pod_sandbox(objects.pod(name))
    container = runtime.create_container(pod, objects.container(pod, "server"))
    runtime.start_container(container)
    return pod, container


def test_the_life_of_a_pod(run: Run) -> None:
    runtime, table_plugin = run({"CreateContainer": _mems("1")})
    pod, container = _running(runtime)
    assert container.linux.resources.cpu.mems == "1"
    assert runtime.store.alive() == [container]
    runtime.stop_pod_sandbox(pod)
    assert runtime.store.alive() == []
    runtime.remove_pod_sandbox(pod)
    assert not runtime.store.pods
    assert not runtime.store.containers
    assert table_plugin.methods() == [
        "RunPodSandbox",
        "CreateContainer",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
        "StopContainer",
        "StopPodSandbox",
        "RemoveContainer",
        "RemovePodSandbox",
    ]


def test_container_states_in_the_events(run: Run) -> None:
    runtime, table_plugin = run()
    pod, container = _running(runtime)
    runtime.stop_container(container, exited=False)
    runtime.stop_container(container)
    runtime.remove_pod_sandbox(pod)
    payloads = dict(table_plugin.requests)
    assert len(payloads) == len(table_plugin.requests)
    requests = {
        "CreateContainer": api.CreateContainerRequest,
        "PostCreateContainer": api.PostCreateContainerRequest,
        "StartContainer": api.StartContainerRequest,
        "PostStartContainer": api.PostStartContainerRequest,
        "StopContainer": api.StopContainerRequest,
    }
    shown = {}
    for method, message in requests.items():
        seen = message.FromString(payloads[method]).container  # type: ignore[attr-defined]
        shown[method] = (seen.state, bool(seen.pid))
    assert shown == {
        "CreateContainer": (api.CONTAINER_UNKNOWN, False),
        "PostCreateContainer": (api.CONTAINER_CREATED, False),
        "StartContainer": (api.CONTAINER_CREATED, True),
        "PostStartContainer": (api.CONTAINER_RUNNING, True),
        "StopContainer": (api.CONTAINER_UNKNOWN, False),
    }


def test_operations_succeed_without_a_plugin() -> None:
    with FakeRuntime() as runtime:
        pod, container = _running(runtime)
        runtime.update_container(container, api.LinuxResources(cpu=api.LinuxCPU(cpus="1")))
        runtime.stop_pod_sandbox(pod)
        runtime.remove_pod_sandbox(pod)
        assert not runtime.store.pods


def test_a_refused_pod_is_undone(run: Run) -> None:
    runtime, table_plugin = run({"RunPodSandbox": _refuse("veto")})
    with pytest.raises(PluginRefused, match="veto"):
        runtime.run_pod_sandbox(objects.pod("db"))
    assert table_plugin.methods() == ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
    assert not runtime.store.pods


@pytest.mark.parametrize("hide", [True, False])
def test_hugepage_limits_are_hidden_by_default(run: Run, *, hide: bool) -> None:
    response = api.CreateContainerResponse()
    response.adjust.linux.resources.hugepage_limits.add(page_size="1GB", limit=7)
    replies: Mapping[str, ReplyFunction] = {
        "CreateContainer": lambda _: response.SerializeToString()
    }
    runtime, table_plugin = run(replies, hide_hugepage_limits=hide)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    requested = objects.container(pod, "server", hugepages={1 << 30: 5})
    created = runtime.create_container(pod, requested)
    shown = api.CreateContainerRequest.FromString(table_plugin.requests[1][1]).container
    assert len(shown.linux.resources.hugepage_limits) == (0 if hide else 1)
    limits = [(h.page_size, h.limit) for h in created.linux.resources.hugepage_limits]
    assert limits == ([] if hide else [("1GB", 7)])


def test_a_refused_container_is_undone_by_containerd(run: Run) -> None:
    runtime, table_plugin = run({"CreateContainer": _refuse()})
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    with pytest.raises(PluginRefused) as refused:
        runtime.create_container(pod, objects.container(pod, "server"))
    assert (refused.value.code, refused.value.text) == (Code.UNKNOWN, "no room")
    assert not runtime.store.containers
    assert table_plugin.methods()[1:] == ["CreateContainer", "StopContainer", "RemoveContainer"]
    stopped = api.StopContainerRequest.FromString(table_plugin.requests[2][1]).container
    assert stopped.id
    assert not stopped.labels


def test_a_refused_container_is_not_undone_by_cri_o(run: Run) -> None:
    runtime, table_plugin = run({"CreateContainer": _refuse()}, CRIO)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    with pytest.raises(PluginRefused):
        runtime.create_container(pod, objects.container(pod, "server"))
    assert table_plugin.methods() == ["StateChange", "CreateContainer"]


def test_the_undo_events_of_a_failed_creation_have_no_adjustment(run: Run) -> None:
    runtime, table_plugin = run({"CreateContainer": _mems("1")})
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    container = objects.container(pod, "server")
    with pytest.raises(RuntimeError, match="creation of server failed"):
        runtime.create_container(pod, container, fails_later=True)
    stopped = api.StopContainerRequest.FromString(table_plugin.requests[2][1]).container
    assert stopped.linux.resources.cpu.mems == ""
    assert not runtime.store.containers
    assert runtime.create_container(pod, container).linux.resources.cpu.mems == "1"


def test_updates_in_replies_change_other_containers(run: Run) -> None:
    runtime, table_plugin = run()
    pod, first = _running(runtime)
    second = objects.container(pod, "second")
    created = api.CreateContainerResponse(update=[_update(first.id, "2")])
    table_plugin.replies["CreateContainer"] = lambda _: created.SerializeToString()
    runtime.create_container(pod, second)
    assert first.linux.resources.cpu.mems == "2"
    stopped = api.StopContainerResponse(update=[_update(first.id, "3")])
    table_plugin.replies["StopContainer"] = lambda _: stopped.SerializeToString()
    runtime.stop_container(runtime.store.containers[second.id])
    assert first.linux.resources.cpu.mems == "3"


def test_an_update_of_the_container_in_creation_is_a_violation(run: Run) -> None:
    runtime, table_plugin = run()
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    container = objects.container(pod, "server")
    response = api.CreateContainerResponse(update=[_update(container.id, "2")])
    table_plugin.replies["CreateContainer"] = lambda _: response.SerializeToString()
    with pytest.raises(ProtocolViolation, match="during its creation"):
        runtime.create_container(pod, container)


def test_a_subscribed_plugin_validates_adjustments(run: Run) -> None:
    reject = api.ValidateContainerAdjustmentResponse(reject=True, reason="not that")
    runtime, table_plugin = run(
        {"ValidateContainerAdjustment": lambda _: reject.SerializeToString()}, events=0
    )
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    with pytest.raises(PluginRefused, match="not that"):
        runtime.create_container(pod, objects.container(pod, "server"))
    del table_plugin.replies["ValidateContainerAdjustment"]
    runtime.create_container(pod, objects.container(pod, "server"))


def test_a_validator_without_reply_fails_the_creation(run: Run) -> None:
    replies: Mapping[str, ReplyFunction] = {"ValidateContainerAdjustment": lambda _: None}
    runtime, _ = run(replies, events=0)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    _hurry(runtime)
    with pytest.raises(PluginRefused, match="did not reply"):
        runtime.create_container(pod, objects.container(pod, "server"))


def test_a_late_reply_closes_the_plugin_and_the_container_is_created_unchanged(run: Run) -> None:
    runtime, _ = run({"CreateContainer": lambda _: None})
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    _hurry(runtime)
    created = runtime.create_container(pod, objects.container(pod, "server"))
    assert created.linux.resources.cpu.mems == ""
    assert runtime.plugin is not None
    assert runtime.plugin.why_closed == "no reply to CreateContainer within 0.5 s"
    runtime.start_container(created)
    runtime.remove_pod_sandbox(pod)


@pytest.mark.parametrize("method", ["UpdateContainer", "StopContainer"])
def test_a_late_reply_does_not_prevent_updates_and_stops(run: Run, method: str) -> None:
    runtime, _ = run({method: lambda _: None})
    pod, container = _running(runtime)
    _hurry(runtime)
    given = api.LinuxResources(cpu=api.LinuxCPU(cpus="1"))
    assert runtime.update_container(container, given) == given
    runtime.remove_pod_sandbox(pod)
    assert runtime.plugin is not None
    assert method in runtime.plugin.why_closed


def test_an_update_combines_the_request_with_the_reply(run: Run) -> None:
    runtime, table_plugin = run()
    pod, container = _running(runtime)
    other = runtime.create_container(pod, objects.container(pod, "other"))
    response = api.UpdateContainerResponse(
        update=[_update(container.id, "2"), _update(other.id, "3")]
    )
    table_plugin.replies["UpdateContainer"] = lambda _: response.SerializeToString()
    given = runtime.update_container(container, api.LinuxResources(cpu=api.LinuxCPU(cpus="0-3")))
    assert (given.cpu.cpus, given.cpu.mems) == ("0-3", "2")
    cpu = container.linux.resources.cpu
    assert (cpu.cpus, cpu.mems, cpu.shares.value) == ("0-3", "2", 1024)
    assert other.linux.resources.cpu.mems == "3"
    assert table_plugin.methods()[-1] == "PostUpdateContainer"


def test_a_refused_update_changes_nothing(run: Run) -> None:
    runtime, _ = run({"UpdateContainer": _refuse()})
    _, container = _running(runtime)
    with pytest.raises(PluginRefused, match="no room"):
        runtime.update_container(container, api.LinuxResources(cpu=api.LinuxCPU(cpus="1")))
    assert container.linux.resources.cpu.cpus == ""


def test_a_refused_start_stops_the_container(run: Run) -> None:
    runtime, table_plugin = run({"StartContainer": _refuse()})
    with pytest.raises(PluginRefused, match="no room"):
        _running(runtime)
    assert table_plugin.methods()[-1] == "StopContainer"
    assert runtime.store.alive() == []


def test_cri_o_starts_a_container_despite_an_error(run: Run) -> None:
    runtime, _ = run({"StateChange": lambda _: b""}, CRIO)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    container = runtime.create_container(pod, objects.container(pod, "server"))
    runtime, table_plugin = run({"StateChange": _refuse()}, CRIO, store=runtime.store)
    runtime.start_container(container)
    assert container.state == api.CONTAINER_RUNNING
    assert runtime.ignored_errors == ["no room (UNKNOWN)"] * 2
    assert table_plugin.methods() == ["StateChange", "StateChange"]


def test_errors_that_are_only_logged(run: Run) -> None:
    methods = ("StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer")
    runtime, _ = run({method: _refuse(method) for method in methods})
    pod, _ = _running(runtime)
    runtime.stop_pod_sandbox(pod)
    runtime.remove_pod_sandbox(pod)
    assert [text.split()[0] for text in runtime.ignored_errors] == [
        "StopContainer",
        "StopPodSandbox",
        "RemoveContainer",
        "RemovePodSandbox",
    ]
    assert not runtime.store.pods


def test_an_error_reply_to_stop_pod_sandbox_fails_on_cri_o(run: Run) -> None:
    runtime, table_plugin = run(None, CRIO)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    table_plugin.replies["StateChange"] = _refuse()
    with pytest.raises(PluginRefused):
        runtime.stop_pod_sandbox(pod)


def test_containerd_sends_no_events_of_pods_older_than_itself(run: Run) -> None:
    before, _ = run(None, CONTAINERD_2_1)
    pod, ended = _running(before)
    lives = before.create_container(pod, objects.container(pod, "lives"))
    before.stop_container(ended)
    before.close()
    runtime, table_plugin = run(None, CONTAINERD_2_1, store=before.store)
    runtime.synchronize()
    (_, payload) = table_plugin.requests[0]
    synchronize = api.SynchronizeRequest.FromString(payload)
    assert [c.id for c in synchronize.containers] == [lives.id]
    assert [p.id for p in synchronize.pods] == [pod.id]
    runtime.stop_pod_sandbox(pod)
    runtime.remove_pod_sandbox(pod)
    assert table_plugin.methods() == ["Synchronize", "StopContainer", "StateChange"]
    change = api.StateChangeEvent.FromString(table_plugin.requests[-1][1])
    assert (change.event, change.container.id) == (api.REMOVE_CONTAINER, lives.id)
    assert not runtime.store.pods


def test_cri_o_sends_events_of_older_pods_with_the_mems_of_creation(run: Run) -> None:
    before, _ = run({"CreateContainer": _mems("0")}, CRIO)
    pod, container = _running(before)
    before.store.apply_update(_update(container.id, "1"))
    before.close()
    runtime, table_plugin = run(None, CRIO, store=before.store)
    assert container.linux.resources.cpu.mems == "0"
    runtime.stop_pod_sandbox(pod)
    assert table_plugin.methods() == ["StopContainer", "StateChange"]


def _bound(nodes: str) -> ReplyFunction:
    response = api.CreateContainerResponse()
    response.adjust.linux.resources.cpu.mems = "1"
    response.adjust.linux.memory_policy.mode = api.MPOL_BIND
    response.adjust.linux.memory_policy.nodes = nodes
    return lambda _payload: response.SerializeToString()


def test_memory_policies_last_as_long_as_their_containers(run: Run) -> None:
    runtime, _ = run({"CreateContainer": _bound("1")})
    pod = runtime.run_pod_sandbox(objects.pod("p"))
    container = runtime.create_container(pod, objects.container(pod, "c"))
    assert runtime.memory_policies[container.id].nodes == "1"
    runtime.remove_container(container)
    assert not runtime.memory_policies


def test_policies_are_checked_with_the_adjusted_nodes(run: Run) -> None:
    runtime, _ = run({"CreateContainer": _bound("0")})
    pod = runtime.run_pod_sandbox(objects.pod("p"))
    with pytest.raises(ProtocolViolation, match=r"nodes 0 outside of cpuset\.mems 1"):
        runtime.create_container(pod, objects.container(pod, "c"))


def test_an_older_nri_would_drop_a_policy(run: Run) -> None:
    runtime, _ = run({"CreateContainer": _bound("1")}, CONTAINERD_2_1)
    pod = runtime.run_pod_sandbox(objects.pod("p"))
    with pytest.raises(ProtocolViolation, match="this NRI drops memory policies"):
        runtime.create_container(pod, objects.container(pod, "c"))
