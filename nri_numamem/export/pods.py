"""The pods that the fingerprint counts, and the memory of containers for the PodResources API.

The fingerprint counts the pods whose use of the host is in the object. A pod counts while its
cgroup exists. The kubelet removes the cgroup of a pod whose containers have all ended, and the
scheduler plugin counts pods in phase Running. A Guaranteed pod also has to be in the plugin's
state: a fingerprint with a pod whose memory the zones still show as available would make the
scheduler forget what it reserved for that pod.

The kubelet's own PodResources entries name all nodes of a group, and clients guess how much lies on
each. The accounting has the bytes per node, so an entry here has one node. A node of the container
on which nothing is charged has an entry of 0 bytes, as memory that a container reuses has in the
kubelet.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from nri_numamem.engine.core.state import EngineState
from nri_numamem.kubelet.host_resources import HostMemory, MemoryEntry
from nri_numamem.memorymanager import Block, State
from nri_numamem.memorymanager.holder import HolderKind, HolderName, container_name
from nri_numamem.memorymanager.state import present_resources


@dataclass(frozen=True, slots=True)
class CountedPods:
    """The pods of a host."""

    names: frozenset[tuple[str, str]]
    """(namespace, name)"""
    unnamed: tuple[str, ...] = ()
    """Uids of pods whose names are not known; without them the fingerprint would be wrong."""


def counted_pods(
    guaranteed: Collection[str],
    others: Collection[str],
    names: Mapping[str, tuple[str, str]],
    state: EngineState,
) -> CountedPods:
    """Return the pods that count.

    `guaranteed` and `others` are the uids of the pods that have a cgroup; `names` maps a uid to
    namespace and name. The kubelet makes a pod's cgroup first, waits for its volumes, and makes
    the directory with its name right before its sandbox. So a pod without a name is Pending and
    does not count, unless the plugin has placed it, or no pod has a name.
    Source: kubelet pkg/kubelet, SyncPod; kuberuntime, createPodSandbox.
    """
    accounted = {uid for uid, _container in state.holders}
    accounted.update(reason.key[0] for reason in state.reasons.unpinned.values())
    uids = sorted({*(uid for uid in guaranteed if uid in accounted), *others})
    return CountedPods(
        frozenset(names[uid] for uid in uids if uid in names),
        tuple(uid for uid in uids if uid not in names and (uid in accounted or not names)),
    )


def host_memory(state: EngineState, names: Mapping[str, tuple[str, str]]) -> HostMemory:
    """Return the memory of all containers; `names` maps a pod's uid to namespace and name.

    Two pods of one name, of which one is ending, count together. A pod that the plugin keeps memory
    for has an entry for the pod as a whole, with that of its containers. Pods without a name are
    left out: see ``unnamed_pods``.
    """
    blocks: dict[tuple[str, str], dict[HolderName, list[Block]]] = {}
    for uid, containers in state.accounting.assignments.items():
        if uid in names:
            of_pod = blocks.setdefault(names[uid], {})
            for container, of_container in containers.items():
                of_pod.setdefault(container, []).extend(of_container)
    for of_pod in blocks.values():
        if HolderKind.POD in of_pod:
            of_pod[HolderKind.POD] = [block for of_one in of_pod.values() for block in of_one]
    return {
        pod: {container_name(name): _entries(found) for name, found in of_pod.items()}
        for pod, of_pod in blocks.items()
    }


def unnamed_pods(state: EngineState, names: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    """Return the uids of pods that have memory and no name, ascending."""
    return tuple(sorted({uid for uid, _name in state.holders} - names.keys()))


def allocatable_memory(accounting: State) -> tuple[MemoryEntry, ...]:
    """Return what pods may use of each node, used memory included."""
    return tuple(
        MemoryEntry(resource, node_id, node.table(resource).allocatable)
        for node_id, node in accounting.machine_state.items()
        for resource in present_resources(accounting)
        if node.table(resource).allocatable
    )


def _entries(blocks: Iterable[Block]) -> tuple[MemoryEntry, ...]:
    sizes = Counter[tuple[str, int]]()
    for block in blocks:
        sizes.update({(block.type, node_id): 0 for node_id in block.numa_affinity})
        for node_id, size_bytes in block.charges:
            sizes[block.type, node_id] += size_bytes
    # `memory` comes after hugepages in the alphabet, and first here.
    order = sorted(sizes, key=lambda key: (key[0] != "memory", key))
    return tuple(MemoryEntry(resource, node, sizes[resource, node]) for resource, node in order)
