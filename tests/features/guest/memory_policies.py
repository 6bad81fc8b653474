"""A container with a memory policy: its creation, the plugin's record, and what the kernel has.

This module depends on the plugin's records, on cgroups and on /proc, and not on a scenario.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.features.guest import memory
from tests.features.guest.memory import MIB
from tests.machines.guest.checks import expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

ANNOTATION = "memory-policy.numamem.io"
WRITTEN_MIB = 64

# A thread of the plugin reads the features of OCI runtimes when the plugin starts.
_NOT_READ_YET = "are not known yet"
_OUTCOMES = ("memory_policy_set", "memory_policy_ignored")


@dataclass(frozen=True, slots=True)
class Placed:
    """A container that has written its memory, as the kernel shows it; it is removed by now.

    `mib` maps a NUMA node to its anonymous memory. `policies` are the texts of numa_maps without
    the addresses, of all processes. `record` is the plugin's about the policy, empty without one.
    """

    nodes: frozenset[int]
    mib: Mapping[int, float]
    policies: tuple[str, ...]
    record: Mapping[str, Any]
    seccomp_modes: frozenset[str]

    def expect_policy(self, text: str) -> None:
        """Expect this policy, in the words of numa_maps, of all memory of all processes."""
        expect(self.policies, "numa_maps is empty")
        others = {each for each in self.policies if not f"{each} ".startswith(f"{text} ")}
        expect(not others, f"other policies than {text}: {sorted(others)[:5]}")

    def __str__(self) -> str:
        nodes = f"cpuset.mems {sorted(self.nodes)}, " if self.nodes else ""
        return f"{nodes}MiB by node: {dict(self.mib)}"


def pod_of(
    name: str,
    annotations: Mapping[str, str],
    *,
    qos: str = "burstable",
    memory_bytes: int = 256 * MIB,
    has_seccomp: bool = False,
) -> PodSpec:
    """Return a pod whose container "main" writes WRITTEN_MIB of memory.

    A BestEffort pod has no limits.
    """
    memory_bytes, cpu_milli = (0, 0) if qos == "besteffort" else (memory_bytes, 1000)
    command = memory.writer(WRITTEN_MIB)
    container = ContainerSpec(
        "main", memory_bytes, cpu_milli, command=command, has_seccomp=has_seccomp
    )
    return PodSpec(name, (container,), qos, annotations)


def run(host: Host, spec: PodSpec) -> Placed:
    """Run a pod of `pod_of` until it has written its memory; remove it."""
    pod = host.kubelet.run_sandbox(spec)
    record = _create(host, pod)
    host.kubelet.client.start_container(pod.container_ids["main"])
    written = memory.wait_for_written(pod, WRITTEN_MIB)
    pids = memory.pids(pod)
    placed = Placed(
        nodes=host.nodes(pod),
        mib=written,
        policies=tuple(line for pid in pids for line in memory.policies(pid)),
        record=record,
        seccomp_modes=frozenset(memory.status(pid)["Seccomp"] for pid in pids),
    )
    host.kubelet.remove(pod)
    return placed


def refuse(host: Host, spec: PodSpec) -> str:
    """Return the text with which the container of a pod is refused; remove the pod."""
    pod = host.kubelet.run_sandbox(spec)

    def refused() -> str:
        try:
            container_id = host.kubelet.create_container(pod, "main")
        except CriError as error:
            return "" if _NOT_READ_YET in str(error) else str(error)
        raise AssertionError(f"it was not refused: {container_id}")

    text = wait_until(refused, "a refusal after the features are read")
    host.kubelet.remove(pod)
    return text


def _create(host: Host, pod: Pod) -> Mapping[str, Any]:
    """Create the container when the features are read; return the record of the plugin."""

    def created() -> tuple[Mapping[str, Any]] | None:
        container_id = host.kubelet.create_container(pod, "main")
        if not pod.spec.annotations:
            return ({},)
        record = wait_until(lambda: _record(host, container_id), f"record of {pod.spec.name}")
        if _NOT_READ_YET not in record.get("cause", ""):
            return (record,)
        host.kubelet.client.remove_container(container_id)
        return None

    return wait_until(created, "a container after the features are read")[0]


def _record(host: Host, container_id: str) -> Mapping[str, Any] | None:
    """Return the record about a container's policy; it is written after the creation."""
    records = [each for event in _OUTCOMES for each in host.plugin.records(event)]
    return next((each for each in records if each["container_id"] == container_id), None)
