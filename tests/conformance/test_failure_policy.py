"""failOnTimeout: what fails, and how each event recovers, with NRI's Go runtime side."""

import signal
from pathlib import Path

import pytest

from tests.conformance.bench import Bench, mems_of
from tests.conformance.go_runtime import GoError, numbers_of
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.simulated_host import GI

OPTIONS: dict[str, object] = {"request-timeout": "1s"}
EVENTS = (
    "RunPodSandbox",
    "CreateContainer",
    "UpdateContainer",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
)


def configuration(root: Path) -> tuple[str, str]:
    path = root / "config.yaml"
    path.write_text("failOnTimeout: true\n")
    return ("--config", str(path))


def call(bench: Bench, op: str, pod: api.PodSandbox, container: api.Container) -> None:
    if op == "CreateContainer":
        assert mems_of(bench.create(pod, container)) == "0"
    elif op == "UpdateContainer":
        resources = api.LinuxResources(
            memory=api.LinuxMemory(limit=api.OptionalInt64(value=2 * GI))
        )
        bench.runtime.call(op, pod=pod, container=container, resources=resources)
    elif op.endswith("Container"):
        bench.runtime.call(op, pod=pod, container=container)
    else:
        bench.runtime.call(op, pod=pod)


@pytest.mark.scenario(71)
def test_a_late_reply_fails_one_request_and_its_repetition_succeeds(
    version: str, tmp_path: Path
) -> None:
    """For each event: late, failed, reconnected, synchronized, repeated as the kubelet does."""
    if numbers_of(version) < (0, 12, 5):
        pytest.skip("NRI before 0.12.5 continues without the plugin")
    pod = objects.pod("late", memory_limit_bytes=2 * GI)
    container = objects.container(pod, "c", memory_limit_bytes=GI)
    with Bench(version, tmp_path, *configuration(tmp_path), options=OPTIONS) as bench:
        bench.connected()
        for number, op in enumerate(EVENTS):
            bench.process.send_signal(signal.SIGSTOP)
            with pytest.raises(GoError, match=f"failed to handle {op}"):
                call(bench, op, pod, container)
            bench.process.send_signal(signal.SIGCONT)
            bench.runtime.wait_connected(number + 2)
            call(bench, op, pod, container)
            is_present = number in range(EVENTS.index("RemoveContainer"))
            pods = [pod] if op not in ("StopPodSandbox", "RemovePodSandbox") else []
            present = [container] if is_present and number else []
            bench.runtime.set_content(pods, present)
        assert bench.entries() == {}
        assert bench.process.poll() is None
        assert len(bench.host.records("synchronized")) == len(EVENTS) + 1


def _create(
    bench: Bench, pod: api.PodSandbox, container: api.Container
) -> api.CreateContainerResponse:
    """Create a container; again, as the kubelet does, if the runtime still had the plugin.

    It logs the end of a connection before it removes the plugin. A request in between fails.
    """
    try:
        return bench.create(pod, container)
    except GoError as error:
        if "ttrpc: closed" not in str(error):
            raise
        return bench.create(pod, container)


@pytest.mark.scenario(71)
def test_containers_created_until_the_plugin_is_back_start_unpinned(
    version: str, tmp_path: Path
) -> None:
    with Bench(version, tmp_path, *configuration(tmp_path), options=OPTIONS) as bench:
        bench.connected()
        pod = objects.pod("unpinned", memory_limit_bytes=2 * GI)
        bench.runtime.call("RunPodSandbox", pod=pod)
        bench.process.kill()
        bench.process.wait()
        bench.connection.closed.wait(10)
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        bench.runtime.wait(lambda: bench.runtime.logged("closed") > 0, "the end of the connection")
        assert mems_of(_create(bench, pod, container)) == ""
        container.state = api.CONTAINER_RUNNING
        bench.runtime.set_content([pod], [container])
        bench.host.start(*configuration(tmp_path))
        bench.runtime.wait_connected(2)
        if numbers_of(version) >= (0, 7):
            assert bench.host.wait_record("pinned_while_running")["container"] == "c"


@pytest.mark.scenario(71)
def test_an_older_runtime_continues_without_the_plugin(version: str, tmp_path: Path) -> None:
    if numbers_of(version) >= (0, 12, 5):
        pytest.skip("it knows the policy")
    with Bench(version, tmp_path, *configuration(tmp_path), options=OPTIONS) as bench:
        bench.connected()
        pod = objects.pod("late", memory_limit_bytes=2 * GI)
        bench.runtime.call("RunPodSandbox", pod=pod)
        bench.process.send_signal(signal.SIGSTOP)
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        assert mems_of(bench.create(pod, container)) == ""
        bench.process.send_signal(signal.SIGCONT)
        bench.runtime.wait_connected(2)
