"""Synchronize, with NRI's Go runtime side."""

from pathlib import Path

import pytest

from tests.conformance.bench import MI, Bench, cpu_seconds
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.simulated_host import GI

# A long timeout, because these tests limit the plugin's processor time.
LONG_TIMEOUT: dict[str, object] = {"request-timeout": "20s"}


def _running(
    pod: api.PodSandbox, name: str, mems: str = "", limit_bytes: int = GI
) -> api.Container:
    container = objects.container(pod, name, memory_limit_bytes=limit_bytes, cpuset_mems=mems)
    container.state = api.CONTAINER_RUNNING
    return container


def _updates(bench: Bench) -> list[api.ContainerUpdate]:
    synchronized = bench.runtime.synchronizations()[-1]
    assert synchronized.error == ""
    return list(api.SynchronizeResponse.FromString(synchronized.result).update)


@pytest.mark.scenario(32)
def test_only_unpinned_containers_are_updated(version: str, tmp_path: Path) -> None:
    pod = objects.pod("db")
    content = [_running(pod, "pinned", "1"), _running(pod, "unpinned")]
    with Bench(version, tmp_path, content=([pod], content)) as bench:
        (update,) = _updates(bench.connected())
        assert update.container_id == content[1].id
        assert update.ignore_failure
        assert update.linux.resources.cpu.mems in ("0", "1")
        assert set(bench.entries()[pod.uid]) == {"pinned", "unpinned"}


@pytest.mark.scenario(37)
def test_containers_in_every_state(version: str, tmp_path: Path) -> None:
    ended, alive = objects.pod("ended"), objects.pod("alive")
    containers = []
    for number, state in enumerate(api.ContainerState.values()):
        container = _running(alive, f"c{number}", "0", MI)
        container.state = state
        containers.append(container)
    orphan = api.Container(id="orphan", pod_sandbox_id="unknown", state=api.CONTAINER_RUNNING)
    bare = api.Container(id="bare", pod_sandbox_id=alive.id)
    content = ([ended, alive], [*containers, orphan, bare])
    with Bench(version, tmp_path, content=content) as bench:
        assert _updates(bench.connected()) == []
        assert bench.host.stop(bench.process) == 0
    assert not bench.host.records("internal_error")


@pytest.mark.scenario(35)
def test_two_thousand_containers(version: str, tmp_path: Path) -> None:
    pods = [objects.pod(f"pod-{number}") for number in range(200)]
    containers = [
        _running(pod, f"c{number}", "0-1" if number % 2 else "", MI)
        for pod in pods
        for number in range(10)
    ]
    # Without environment and mounts it stays below 4 MiB, so all versions send one message.
    for container in containers:
        container.ClearField("env")
        container.ClearField("mounts")
    content = (pods, containers)
    with Bench(version, tmp_path, options=LONG_TIMEOUT, content=content, delay_ms=300) as bench:
        bench.host.wait_record("configured")
        before_s = cpu_seconds(bench.process.pid)
        _updates(bench.connected())
        assert cpu_seconds(bench.process.pid) - before_s < 1.0
        assert len(bench.entries()) == 200


@pytest.mark.scenario(33, 34)
def test_twelve_megabytes(version: str, tmp_path: Path) -> None:
    """One message up to 0.6.1, parts since."""
    pods = [objects.pod(f"pod-{number}") for number in range(40)]
    containers = [_running(pod, f"c{number}", "", MI) for pod in pods for number in range(5)]
    for container in containers:
        container.env.append("PADDING=" + "x" * 60_000)
    content = (pods, containers)
    with Bench(version, tmp_path, options=LONG_TIMEOUT, content=content, delay_ms=300) as bench:
        bench.host.wait_record("configured")
        before_s = cpu_seconds(bench.process.pid)
        updates = _updates(bench.connected())
        assert {update.container_id for update in updates} == {c.id for c in containers}
        assert len(bench.entries()) == 40
        assert cpu_seconds(bench.process.pid) - before_s < 1.8  # the plugin's part of 2 s
        parts = bench.connection.calls_of_runtime().count("Synchronize")
        if bench.runtime.nri_version >= (0, 7):
            assert parts >= 3
        else:
            assert parts == 1
