"""Scenarios of memory placement: which containers are pinned, their NUMA nodes and memory.

The machine: four NUMA nodes of about 1 GiB with 64 MiB reserved on each; 0-1 and 2-3 are near.
"""

from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import SLEEP, ContainerSpec, Pod, PodSpec
from tests.machines.guest.scenarios_lifecycle import RESTART
from tests.machines.guest.waiting import wait_until

MIB = 1 << 20
SMALL = 200 * MIB  # fits one NUMA node
MEDIUM = 760 * MIB  # fits one NUMA node, and leaves too little for SMALL
LARGE = 1229 * MIB  # 1.2 GiB: fits two
NEAR_PAIRS = (frozenset({0, 1}), frozenset({2, 3}))

_WRITTEN_BYTES = 150_000_000
# The block stays in dd's memory, because sleep never reads from the pipe.
_WRITER = f"busybox dd if=/dev/zero bs={_WRITTEN_BYTES} count=1 | busybox sleep 1000000"


def _guaranteed(name: str, memory_bytes: int, command: tuple[str, ...] = SLEEP) -> PodSpec:
    return PodSpec(name, (ContainerSpec("main", memory_bytes, command=command),))


def _small_container_is_on_one_node(host: Host) -> str:
    medium = host.nodes(host.kubelet.run(_guaranteed("medium", MEDIUM)))
    nodes = host.nodes(host.kubelet.run(_guaranteed("small", SMALL, ("/bin/sh", "-c", _WRITER))))
    for each in (medium, nodes):
        expect(len(each) == 1, f"cpuset.mems is {sorted(each)}, not one node")
    expect(medium != nodes, f"960 MiB of limits are on node {sorted(nodes)}")
    return f"node {sorted(nodes)}"


def _written_memory_is_on_the_node(host: Host) -> str:
    pod = host.kubelet.pod("small")
    (node,) = host.nodes(pod)

    def written() -> dict[int, int] | None:
        anonymous = cgroups.anonymous_bytes(pod.parent, pod.container_ids["main"])
        return anonymous if sum(anonymous.values()) >= _WRITTEN_BYTES else None

    anonymous = wait_until(written, "150 MB of anonymous memory")
    elsewhere = sum(size for each, size in anonymous.items() if each != node)
    expect(elsewhere < MIB, f"{elsewhere} bytes are not on node {node}: {anonymous}")
    return f"node {node}: {anonymous}"


def _state_has_the_assignment(host: Host) -> str:
    pod = host.kubelet.pod("small")
    blocks = host.plugin.accounting()["entries"][pod.uid]["main"]
    expected = [{"numaAffinity": sorted(host.nodes(pod)), "type": "memory", "size": SMALL}]
    expect(blocks == expected, f"the plugin's state has {blocks}, not {expected}")
    return f"{blocks}"


def _update_keeps_the_node(host: Host) -> str:
    pod = host.kubelet.pod("small")
    before = host.nodes(pod)
    host.kubelet.resize_cpu(pod, "main", 1500)
    quota = cgroups.read(pod.parent, pod.container_ids["main"], "cpu.max")
    expect(quota == "150000 100000", f"cpu.max is {quota}: the update was not applied")
    after = host.nodes(pod)
    expect(before and before == after, f"from {sorted(before)} to {sorted(after)}")
    return f"node {sorted(after)}"


def _restarted_container_keeps_its_node(host: Host) -> str:
    pod = host.kubelet.pod("small")
    before = host.nodes(pod)
    # A new container would get the freed node; a restarted one keeps its node.
    host.kubelet.remove(host.kubelet.pod("medium"))
    host.kubelet.client.stop_container(pod.container_ids["main"])
    host.kubelet.run_container(pod, "main")
    after = host.nodes(pod)
    expect(before and before == after, f"from {sorted(before)} to {sorted(after)}")
    return f"node {sorted(after)}"


def _large_containers_get_near_pairs(host: Host) -> str:
    first = host.nodes(host.kubelet.run(_guaranteed("large-1", LARGE)))
    expect(first in NEAR_PAIRS, f"the first is on {sorted(first)}")
    second = host.nodes(host.kubelet.run(_guaranteed("large-2", LARGE)))
    expect(second in NEAR_PAIRS, f"the second is on {sorted(second)}")
    expect(first != second, f"both are on {sorted(first)}")
    return f"{sorted(first)}, {sorted(second)}"


def _small_container_respects_the_groups(host: Host) -> str:
    """All nodes are in groups now: a small container joins a group or is rejected."""
    try:
        pod = host.kubelet.run(_guaranteed("guest", SMALL))
    except CriError as error:
        expect("numamem" in str(error), f"rejected, but not by the plugin: {error}")
        return "rejected"
    nodes = host.nodes(pod)
    expect(nodes in NEAR_PAIRS, f"it is on {sorted(nodes)}, across or inside a group")
    return f"joined {sorted(nodes)}"


def _rejection_is_explained(host: Host) -> str:
    text = _rejection(host, host.kubelet.run_sandbox(_guaranteed("large-3", LARGE)))
    expect("numamem" in text, f"the text does not name the plugin: {text}")
    expect("memory" in text, f"the text does not name the resource: {text}")
    missing = [node for node in range(4) if f"node {node}" not in text]
    expect(not missing, f"nodes {missing} are not in the text: {text}")
    expect(host.plugin.records("rejected"), "the plugin logged no record of the rejection")
    return text


def _rejection(host: Host, pod: Pod) -> str:
    try:
        host.kubelet.run_container(pod, "main")
    except CriError as error:
        return str(error)
    raise AssertionError(f"it was not rejected, but is on {sorted(host.nodes(pod))}")


def _retry_succeeds_on_freed_nodes(host: Host) -> str:
    freed = host.nodes(host.kubelet.pod("large-1"))
    host.kubelet.remove(host.kubelet.pod("large-1"))
    rejected = host.kubelet.pod("large-3")
    host.kubelet.run_container(rejected, "main")
    nodes = host.nodes(rejected)
    expect(nodes == freed, f"it is on {sorted(nodes)}, not on {sorted(freed)}")
    return f"{sorted(nodes)}"


def _other_classes_are_not_managed(host: Host) -> str:
    for qos, memory_bytes, cpu_milli in (("burstable", SMALL, 500), ("besteffort", 0, 0)):
        container = ContainerSpec("main", memory_bytes, cpu_milli)
        nodes = host.nodes(host.kubelet.run(PodSpec(qos, (container,), qos)))
        expect(not nodes, f"the {qos} container got cpuset.mems {sorted(nodes)}")
    uids = {pod.uid for pod in host.kubelet.pods}
    entries = host.plugin.accounting()["entries"]
    expect(not uids & set(entries), f"the plugin's state has {entries}")
    return "cpuset.mems is empty in both"


ONE_NODE = (
    Check("small_container_is_on_one_node", _small_container_is_on_one_node),
    Check("written_memory_is_on_the_node", _written_memory_is_on_the_node),
    Check("state_has_the_assignment", _state_has_the_assignment),
    Check("update_keeps_the_node", _update_keeps_the_node),
    Check("restarted_container_keeps_its_node", _restarted_container_keeps_its_node),
)
PAIRS = (
    Check("large_containers_get_near_pairs", _large_containers_get_near_pairs),
    Check("small_container_respects_the_groups", _small_container_respects_the_groups),
    RESTART,
    Check("rejection_is_explained", _rejection_is_explained),
    Check("retry_succeeds_on_freed_nodes", _retry_succeeds_on_freed_nodes),
)
OTHER_CLASSES = (Check("other_classes_are_not_managed", _other_classes_are_not_managed),)
