import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri import runtime_objects as objects
from nri_numamem.nri.runtime import EmbeddedRuntime, PluginRefused, ProtocolViolation
from nri_numamem.nri.runtime_plugin import Timeouts
from nri_numamem.nri.runtime_testing import Answer, ScriptedPlugin
from nri_numamem.nri.runtime_version import RuntimeVersion
from nri_numamem.ttrpc import Code, StatusError

CRIO = RuntimeVersion("cri-o", "1.36.0", (0, 11, 0))
CONTAINERD_2_1 = RuntimeVersion("containerd", "v2.1.9", (0, 8, 0))

Run = Callable[..., tuple[EmbeddedRuntime, ScriptedPlugin]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Start a runtime and a plugin that subscribed to everything old, and connect them."""
    with ExitStack() as stack:

        def running(
            answers: Mapping[str, Answer] | None = None,
            version: RuntimeVersion | None = None,
            events: int = 0x7FF,
            **options: Any,  # noqa: ANN401 - EmbeddedRuntime's own
        ) -> tuple[EmbeddedRuntime, ScriptedPlugin]:
            runtime = stack.enter_context(EmbeddedRuntime(version, **options))
            ours, theirs = socket.socketpair()
            scripted = stack.enter_context(ScriptedPlugin(theirs, answers, events=events))
            runtime.attach(ours)
            scripted.requests.clear()
            return runtime, scripted

        yield running


def _refuse(text: str = "no room", code: Code = Code.UNKNOWN) -> Answer:
    def answer(_payload: bytes) -> bytes:
        raise StatusError(code, text)

    return answer


def _mems(mems: str) -> Answer:
    response = api.CreateContainerResponse()
    response.adjust.linux.resources.cpu.mems = mems
    return lambda _payload: response.SerializeToString()


def _update(container_id: str, mems: str) -> api.ContainerUpdate:
    update = api.ContainerUpdate(container_id=container_id, ignore_failure=True)
    update.linux.resources.cpu.mems = mems
    return update


def _hurry(runtime: EmbeddedRuntime) -> None:
    """Wait no longer than this for the reply that will never come."""
    assert runtime.plugin is not None
    runtime.plugin.timeouts = Timeouts(request_s=0.5)


def _running(runtime: EmbeddedRuntime, name: str = "db") -> tuple[api.PodSandbox, api.Container]:
    pod = runtime.run_pod_sandbox(objects.pod(name))
    container = runtime.create_container(pod, objects.container(pod, "server"))
    runtime.start_container(container)
    return pod, container


def test_the_life_of_a_pod(run: Run) -> None:
    runtime, scripted = run({"CreateContainer": _mems("1")})
    pod, container = _running(runtime)
    assert container.linux.resources.cpu.mems == "1"
    assert runtime.store.alive() == [container]
    runtime.stop_pod_sandbox(pod)
    assert runtime.store.alive() == []
    runtime.remove_pod_sandbox(pod)
    assert not runtime.store.pods
    assert not runtime.store.containers
    assert scripted.methods() == [
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


def test_states_that_the_events_show(run: Run) -> None:
    runtime, scripted = run()
    pod, container = _running(runtime)
    runtime.stop_container(container, exited=False)
    runtime.stop_container(container)
    runtime.remove_pod_sandbox(pod)
    payloads = dict(scripted.requests)
    assert len(payloads) == len(scripted.requests)
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


def test_without_a_plugin_everything_just_happens() -> None:
    with EmbeddedRuntime() as runtime:
        pod, container = _running(runtime)
        runtime.update_container(container, api.LinuxResources(cpu=api.LinuxCPU(cpus="1")))
        runtime.stop_pod_sandbox(pod)
        runtime.remove_pod_sandbox(pod)
        assert not runtime.store.pods


def test_a_vetoed_pod_is_undone(run: Run) -> None:
    runtime, scripted = run({"RunPodSandbox": _refuse("veto")})
    with pytest.raises(PluginRefused, match="veto"):
        runtime.run_pod_sandbox(objects.pod("db"))
    assert scripted.methods() == ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
    assert not runtime.store.pods


@pytest.mark.parametrize("hide", [True, False])
def test_hugepage_limits_are_hidden_by_default(run: Run, *, hide: bool) -> None:
    response = api.CreateContainerResponse()
    response.adjust.linux.resources.hugepage_limits.add(page_size="1GB", limit=7)
    answers: Mapping[str, Answer] = {"CreateContainer": lambda _: response.SerializeToString()}
    runtime, scripted = run(answers, hide_hugepage_limits=hide)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    asked = objects.container(pod, "server", hugepages={1 << 30: 5})
    created = runtime.create_container(pod, asked)
    shown = api.CreateContainerRequest.FromString(scripted.requests[1][1]).container
    assert len(shown.linux.resources.hugepage_limits) == (0 if hide else 1)
    limits = [(h.page_size, h.limit) for h in created.linux.resources.hugepage_limits]
    assert limits == ([] if hide else [("1GB", 7)])


def test_a_refused_container_is_undone_by_containerd(run: Run) -> None:
    runtime, scripted = run({"CreateContainer": _refuse()})
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    with pytest.raises(PluginRefused) as refused:
        runtime.create_container(pod, objects.container(pod, "server"))
    assert (refused.value.code, refused.value.text) == (Code.UNKNOWN, "no room")
    assert not runtime.store.containers
    assert scripted.methods()[1:] == ["CreateContainer", "StopContainer", "RemoveContainer"]
    stopped = api.StopContainerRequest.FromString(scripted.requests[2][1]).container
    assert stopped.id
    assert not stopped.labels


def test_a_refused_container_is_not_undone_by_cri_o(run: Run) -> None:
    runtime, scripted = run({"CreateContainer": _refuse()}, CRIO)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    with pytest.raises(PluginRefused):
        runtime.create_container(pod, objects.container(pod, "server"))
    assert scripted.methods() == ["StateChange", "CreateContainer"]


def test_a_creation_that_fails_later_shows_the_spec_from_before(run: Run) -> None:
    runtime, scripted = run({"CreateContainer": _mems("1")})
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    container = objects.container(pod, "server")
    with pytest.raises(RuntimeError, match="creation of server failed"):
        runtime.create_container(pod, container, fails_later=True)
    stopped = api.StopContainerRequest.FromString(scripted.requests[2][1]).container
    assert stopped.linux.resources.cpu.mems == ""
    assert not runtime.store.containers
    assert runtime.create_container(pod, container).linux.resources.cpu.mems == "1"


def test_updates_in_replies_change_other_containers(run: Run) -> None:
    runtime, scripted = run()
    pod, first = _running(runtime)
    second = objects.container(pod, "second")
    created = api.CreateContainerResponse(update=[_update(first.id, "2")])
    scripted.answers["CreateContainer"] = lambda _: created.SerializeToString()
    runtime.create_container(pod, second)
    assert first.linux.resources.cpu.mems == "2"
    stopped = api.StopContainerResponse(update=[_update(first.id, "3")])
    scripted.answers["StopContainer"] = lambda _: stopped.SerializeToString()
    runtime.stop_container(runtime.store.containers[second.id])
    assert first.linux.resources.cpu.mems == "3"


def test_an_update_of_the_container_being_created_is_a_violation(run: Run) -> None:
    runtime, scripted = run()
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    container = objects.container(pod, "server")
    response = api.CreateContainerResponse(update=[_update(container.id, "2")])
    scripted.answers["CreateContainer"] = lambda _: response.SerializeToString()
    with pytest.raises(ProtocolViolation, match="during its creation"):
        runtime.create_container(pod, container)


def test_validation_is_asked_when_subscribed(run: Run) -> None:
    reject = api.ValidateContainerAdjustmentResponse(reject=True, reason="not that")
    runtime, scripted = run(
        {"ValidateContainerAdjustment": lambda _: reject.SerializeToString()}, events=0
    )
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    with pytest.raises(PluginRefused, match="not that"):
        runtime.create_container(pod, objects.container(pod, "server"))
    del scripted.answers["ValidateContainerAdjustment"]
    runtime.create_container(pod, objects.container(pod, "server"))


def test_a_silent_validator_fails_the_creation(run: Run) -> None:
    answers: Mapping[str, Answer] = {"ValidateContainerAdjustment": lambda _: None}
    runtime, _ = run(answers, events=0)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    _hurry(runtime)
    with pytest.raises(PluginRefused, match="no answer"):
        runtime.create_container(pod, objects.container(pod, "server"))


def test_a_slow_plugin_is_closed_and_the_container_created_as_asked(run: Run) -> None:
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
def test_a_slow_plugin_does_not_stop_updates_and_stops(run: Run, method: str) -> None:
    runtime, _ = run({method: lambda _: None})
    pod, container = _running(runtime)
    _hurry(runtime)
    given = api.LinuxResources(cpu=api.LinuxCPU(cpus="1"))
    assert runtime.update_container(container, given) == given
    runtime.remove_pod_sandbox(pod)
    assert runtime.plugin is not None
    assert method in runtime.plugin.why_closed


def test_an_update_keeps_what_was_asked_and_adds_the_plugins_wish(run: Run) -> None:
    runtime, scripted = run()
    pod, container = _running(runtime)
    other = runtime.create_container(pod, objects.container(pod, "other"))
    response = api.UpdateContainerResponse(
        update=[_update(container.id, "2"), _update(other.id, "3")]
    )
    scripted.answers["UpdateContainer"] = lambda _: response.SerializeToString()
    given = runtime.update_container(container, api.LinuxResources(cpu=api.LinuxCPU(cpus="0-3")))
    assert (given.cpu.cpus, given.cpu.mems) == ("0-3", "2")
    cpu = container.linux.resources.cpu
    assert (cpu.cpus, cpu.mems, cpu.shares.value) == ("0-3", "2", 1024)
    assert other.linux.resources.cpu.mems == "3"
    assert scripted.methods()[-1] == "PostUpdateContainer"


def test_a_refused_update_changes_nothing(run: Run) -> None:
    runtime, _ = run({"UpdateContainer": _refuse()})
    _, container = _running(runtime)
    with pytest.raises(PluginRefused, match="no room"):
        runtime.update_container(container, api.LinuxResources(cpu=api.LinuxCPU(cpus="1")))
    assert container.linux.resources.cpu.cpus == ""


def test_a_refused_start_stops_the_container(run: Run) -> None:
    runtime, scripted = run({"StartContainer": _refuse()})
    with pytest.raises(PluginRefused, match="no room"):
        _running(runtime)
    assert scripted.methods()[-1] == "StopContainer"
    assert runtime.store.alive() == []


def test_cri_o_starts_in_spite_of_an_error(run: Run) -> None:
    runtime, _ = run({"StateChange": lambda _: b""}, CRIO)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    container = runtime.create_container(pod, objects.container(pod, "server"))
    runtime, scripted = run({"StateChange": _refuse()}, CRIO, store=runtime.store)
    runtime.start_container(container)
    assert container.state == api.CONTAINER_RUNNING
    assert runtime.ignored_errors == ["no room (UNKNOWN)"] * 2
    assert scripted.methods() == ["StateChange", "StateChange"]


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


def test_an_error_of_stop_pod_sandbox_wedges_cri_o(run: Run) -> None:
    runtime, scripted = run(None, CRIO)
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    scripted.answers["StateChange"] = _refuse()
    with pytest.raises(PluginRefused):
        runtime.stop_pod_sandbox(pod)


def test_containerd_is_silent_about_pods_older_than_itself(run: Run) -> None:
    before, _ = run(None, CONTAINERD_2_1)
    pod, ended = _running(before)
    lives = before.create_container(pod, objects.container(pod, "lives"))
    before.stop_container(ended)
    before.close()
    runtime, scripted = run(None, CONTAINERD_2_1, store=before.store)
    runtime.synchronize()
    (_, payload) = scripted.requests[0]
    synchronize = api.SynchronizeRequest.FromString(payload)
    assert [c.id for c in synchronize.containers] == [lives.id]
    assert [p.id for p in synchronize.pods] == [pod.id]
    runtime.stop_pod_sandbox(pod)
    runtime.remove_pod_sandbox(pod)
    assert scripted.methods() == ["Synchronize", "StopContainer", "StateChange"]
    change = api.StateChangeEvent.FromString(scripted.requests[-1][1])
    assert (change.event, change.container.id) == (api.REMOVE_CONTAINER, lives.id)
    assert not runtime.store.pods


def test_cri_o_tells_of_old_pods_and_shows_old_mems(run: Run) -> None:
    before, _ = run({"CreateContainer": _mems("0")}, CRIO)
    pod, container = _running(before)
    before.store.apply_update(_update(container.id, "1"))
    before.close()
    runtime, scripted = run(None, CRIO, store=before.store)
    assert container.linux.resources.cpu.mems == "0"
    runtime.stop_pod_sandbox(pod)
    assert scripted.methods() == ["StopContainer", "StateChange"]
