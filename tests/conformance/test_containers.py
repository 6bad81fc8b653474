"""Calls about pods and containers, through NRI's Go runtime side."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_numamem.memorymanager import QosClass
from tests.conformance.bench import MI, Bench, mems_of, queued_seconds, resident_bytes
from tests.conformance.catalog import GO_VERSIONS
from tests.conformance.go_runtime import GoError
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.simulated_host import GI, wait_for

Unique = Callable[[str], str]

_UID = "0a1b2c3d-0000-4000-8000-00000000000"
_SLICE = _UID.replace("-", "_")

PARENTS = {
    f"/kubepods/pod{_UID}1": True,
    f"/kubepods/burstable/pod{_UID}2": False,
    f"/kubepods/besteffort/pod{_UID}3": False,
    f"/kubepods.slice/kubepods-pod{_SLICE}4.slice": True,
    f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{_SLICE}5.slice": False,
    f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{_SLICE}6.slice": False,
    f"kubepods-pod{_SLICE}7.slice": True,
    f"kubepods-burstable-pod{_SLICE}8.slice": False,
    f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{_SLICE}9.slice": True,
    f"/my-burstable/kubepods/pod{_UID}a": True,
    f"/my.slice/my-kubepods.slice/my-kubepods-burstable-pod{_SLICE}b.slice": False,
}


@pytest.mark.scenario(38)
def test_qos_class_from_every_cgroup_parent(live: Bench, unique: Unique) -> None:
    found = {}
    for parent in PARENTS:
        with live.pod(unique("class"), cgroup_parent=parent) as pod:
            created = live.create(pod, objects.container(pod, "c", memory_limit_bytes=MI))
            found[parent] = mems_of(created) != ""
    assert found == PARENTS


@pytest.mark.scenario(3, 40, 49, 48, 44)
def test_a_containers_life(live: Bench, unique: Unique) -> None:
    with live.pod(unique("db")) as pod:
        container = objects.container(pod, "server", memory_limit_bytes=GI)
        created = live.create(pod, container)
        assert mems_of(created) == "0"
        assert list(created.update) == []
        reply = live.connection.last_reply("CreateContainer").payload
        # Only the tags 1 (adjust), 6 (linux), 2 (resources), 2 (cpu), 7 (mems).
        assert reply == bytes.fromhex("0a09 3207 1205 1203 3a01 30")
        for op in ("PostCreateContainer", "StartContainer", "PostStartContainer"):
            live.runtime.call(op, pod=pod, container=container)
        blocks = [{"numaAffinity": [0], "type": "memory", "size": GI}]
        assert live.entries()[pod.uid] == {"server": blocks}
        free = live.free()
        assert list(live.stop(pod, container).update) == []
        # The memory remains reusable for the pod's next containers.
        assert live.free() == free
        other = objects.container(pod, "next", memory_limit_bytes=GI)
        assert mems_of(live.create(pod, other)) == "0"
        assert live.free() == free
        live.stop(pod, other)
        live.remove(pod, container)
        live.remove(pod, other)
        assert live.free() == free


@pytest.mark.scenario(39)
def test_existing_mems_are_respected(live: Bench, unique: Unique) -> None:
    with live.pod(unique("set")) as pod:
        container = objects.container(pod, "c", memory_limit_bytes=GI, cpuset_mems="1")
        created = live.create(pod, container)
        assert mems_of(created) == ""
        assert live.connection.last_reply("CreateContainer").payload == b""
        assert live.entries()[pod.uid]["c"][0]["numaAffinity"] == [1]


@pytest.mark.scenario(42)
def test_an_undone_creation(live: Bench, unique: Unique) -> None:
    with live.pod(unique("undone")) as pod:
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        live.create(pod, container)
        undone = objects.container(pod, "c", memory_limit_bytes=GI)
        undone.ClearField("labels")
        free = live.free()
        live.stop(pod, undone)
        live.remove(pod, undone)
        again = objects.container(pod, "c", memory_limit_bytes=GI, attempt=1)
        assert mems_of(live.create(pod, again)) == "0"
        assert live.free() == free


@pytest.mark.scenario(43, 47)
def test_a_replacement_without_an_end_of_the_first_container(live: Bench, unique: Unique) -> None:
    with live.pod(unique("again")) as pod:
        first = objects.container(pod, "c", memory_limit_bytes=GI)
        live.create(pod, first)
        free = live.free()
        second = objects.container(pod, "c", memory_limit_bytes=GI, attempt=1)
        assert mems_of(live.create(pod, second)) == "0"
        assert live.free() == free
        live.stop(pod, first)
        live.remove(pod, first)
        assert live.free() == free
        assert list(live.entries()[pod.uid]) == ["c"]


@pytest.mark.scenario(45, 52, 56)
def test_ends_in_every_order(live: Bench, unique: Unique) -> None:
    with live.pod(unique("order")) as pod:
        unknown = objects.container(pod, "unknown")
        assert live.stop(pod, unknown).ByteSize() == 0
        live.remove(pod, unknown)
        resources = api.LinuxResources(cpu=api.LinuxCPU(cpus="0-1"))
        updated = live.runtime.call(
            "UpdateContainer", pod=pod, container=unknown, resources=resources
        )
        assert list(api.UpdateContainerResponse.FromString(updated).update) == []
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        live.create(pod, container)
        container.state = api.CONTAINER_UNKNOWN
        live.runtime.call("StopContainer", pod=pod, container=container)
        wait_for(lambda: _ended(live, pod) == ["c"])
        live.stop(pod, container)
        alone = objects.container(pod, "d", memory_limit_bytes=GI)
        live.create(pod, alone)
        live.remove(pod, alone)
        wait_for(lambda: _ended(live, pod) == ["c", "d"])


def _ended(live: Bench, pod: api.PodSandbox) -> list[str]:
    records = live.host.records("container_ended")
    return [record["container"] for record in records if record["pod"] == pod.name]


@pytest.mark.scenario(46)
def test_a_container_that_stops_after_its_pod(live: Bench, unique: Unique) -> None:
    with live.pod(unique("late")) as pod:
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        live.create(pod, container)
        live.runtime.call("StopPodSandbox", pod=pod)
        assert live.entries() == {}
        assert live.stop(pod, container).ByteSize() == 0
        live.runtime.call("RemovePodSandbox", pod=pod)
        assert live.stop(pod, container).ByteSize() == 0
        live.remove(pod, container)


@pytest.mark.scenario(50)
def test_zeros_of_the_cpu_manager_are_no_limits(live: Bench, unique: Unique) -> None:
    with live.pod(unique("cpus")) as pod:
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        live.create(pod, container)
        before = live.entries()
        wanted = api.LinuxResources(
            memory=api.LinuxMemory(limit=api.OptionalInt64(value=0)),
            cpu=api.LinuxCPU(
                shares=api.OptionalUInt64(value=0),
                quota=api.OptionalInt64(value=0),
                period=api.OptionalUInt64(value=0),
                cpus="0-1",
            ),
        )
        live.runtime.call("UpdateContainer", pod=pod, container=container, resources=wanted)
        assert live.connection.last_reply("UpdateContainer").payload == b""
        assert live.entries() == before


@pytest.mark.scenario(51)
def test_a_new_memory_limit_is_accounted(live: Bench, unique: Unique) -> None:
    with live.pod(unique("resized")) as pod:
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        live.create(pod, container)
        limit = api.OptionalInt64(value=2 * GI)
        wanted = api.LinuxResources(memory=api.LinuxMemory(limit=limit))
        result = live.runtime.call(
            "UpdateContainer", pod=pod, container=container, resources=wanted
        )
        for update in api.UpdateContainerResponse.FromString(result).update:
            if update.container_id == container.id:
                assert update.linux.resources.memory.limit.value in (0, 2 * GI)
        assert live.entries()[pod.uid]["c"][0]["size"] == 2 * GI


@pytest.mark.scenario(53, 54)
def test_every_event_of_the_version(live: Bench, unique: Unique) -> None:
    """Dedicated calls since 0.12, StateChange before: never both, and the same effect."""
    with live.pod(unique("events")) as pod:
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        live.create(pod, container)
        for op in ("PostCreateContainer", "StartContainer", "PostStartContainer"):
            live.runtime.call(op, pod=pod, container=container)
        live.runtime.call("PostUpdateContainer", pod=pod, container=container)
        live.stop(pod, container)
        live.remove(pod, container)
    calls = set(live.connection.calls_of_runtime())
    dedicated = {"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "RemoveContainer"}
    if live.runtime.nri_version >= (0, 12):
        assert dedicated <= calls
        assert "StateChange" not in calls
    else:
        assert not dedicated & calls
        assert "StateChange" in calls
    assert live.runtime.logged("deprecat") == 0


@pytest.mark.scenario(57)
def test_incomplete_pods_and_containers(live: Bench, unique: Unique) -> None:
    bare = api.PodSandbox(id=unique("bare"), uid=unique("uid"))
    live.runtime.call("RunPodSandbox", pod=bare)
    naked = api.Container(id=unique("naked"), pod_sandbox_id=bare.id)
    live.create(bare, naked)
    assert live.connection.last_reply("CreateContainer").payload == b""
    live.stop(bare, naked)
    live.runtime.call("RemovePodSandbox", pod=bare)
    with live.pod(unique("odd"), cgroup_parent="") as pod:
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        assert mems_of(live.create(pod, container)) == ""
    with live.pod(unique("mems")) as pod:
        container = objects.container(pod, "c", memory_limit_bytes=GI, cpuset_mems="one,two")
        created = live.create(pod, container)
        assert mems_of(created) == ""


@pytest.mark.scenario(67)
def test_the_cgroup_of_a_node_critical_pod_decides_its_class(live: Bench, unique: Unique) -> None:
    with live.pod(unique("critical"), qos=QosClass.BURSTABLE) as pod:
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        assert container.linux.oom_score_adj.value == -997
        assert mems_of(live.create(pod, container)) == ""


@pytest.mark.scenario(70)
def test_a_refusal_arrives_for_any_names(live: Bench, unique: Unique) -> None:
    """The truncated text must end with a whole character: Go refuses invalid UTF-8."""
    with live.pod(unique("größe-" + "漢" * 400)) as pod:
        container = objects.container(pod, "ü" * 300, memory_limit_bytes=64 * GI)
        container.env.append("ODD=\U0010ffff\x00\x7f")
        with pytest.raises(GoError) as caught:
            live.create(pod, container)
        assert "64Gi" in str(caught.value)
        assert "\N{REPLACEMENT CHARACTER}" not in str(caught.value)


@pytest.mark.scenario(59)
@pytest.mark.timeout(600)  # half a minute on an idle machine
def test_many_cycles(version: str, tmp_path: Path) -> None:
    """10,000 cycles with the newest version; a leak does not depend on the version."""
    cycles = 10_000 if version == GO_VERSIONS[-1] else 2_000
    with (
        Bench(version, tmp_path, "--log-level", "warning") as bench,
        bench.connected().pod("cycles") as pod,
    ):
        times = []
        settled = 0
        # The proxy runs in this process.
        processes = (bench.process.pid, bench.runtime.pid, os.getpid())
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        for attempt in range(cycles):
            container.id = f"{pod.name}-{attempt}"
            container.linux.resources.cpu.mems = ""
            queued_s = queued_seconds(*processes)
            assert mems_of(bench.create(pod, container)) == "0"
            # Without the time in which other processes used the processor.
            times.append(bench.runtime.took_s - (queued_seconds(*processes) - queued_s))
            bench.stop(pod, container)
            bench.remove(pod, container)
            if attempt == 1_000:
                settled = resident_bytes(bench.process.pid)
        assert resident_bytes(bench.process.pid) <= settled + 2 * MI
        assert sorted(times)[len(times) * 99 // 100] < 0.050
        messages = bench.connection.messages
        streams = [m.stream_id for m in messages if not m.by_plugin and m.conn_id == 1]
        assert streams == sorted(set(streams))
        assert len(streams) >= 3 * cycles
