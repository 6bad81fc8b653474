"""Memory and hugepages of each container on each NUMA node, for the PodResources API.

The kubelet's own entries name all nodes of a group, and clients guess how much lies on each. The
accounting has the bytes per node, so an entry here has one node. A node of the container on which
nothing is charged has an entry of 0 bytes, as memory that a container reuses has in the kubelet.
"""

from collections.abc import Iterable, Mapping

from nri_numamem.engine.core.state import POOL, EngineState
from nri_numamem.kubelet.host_resources import HostMemory, MemoryEntry
from nri_numamem.memorymanager import Block, State
from nri_numamem.memorymanager.state import present_resources


def host_memory(state: EngineState, names: Mapping[str, tuple[str, str]]) -> HostMemory:
    """Return the memory of all containers; `names` maps a pod's uid to namespace and name.

    Two pods of one name, of which one is ending, count together. A pod that the plugin keeps memory
    for has an entry for the pod as a whole, with that of its containers. Pods without a name are
    left out: see ``unnamed_pods``.
    """
    blocks: dict[tuple[str, str], dict[str, list[Block]]] = {}
    for uid, containers in state.accounting.assignments.items():
        if uid in names:
            of_pod = blocks.setdefault(names[uid], {})
            for container, of_container in containers.items():
                of_pod.setdefault(container, []).extend(of_container)
    for of_pod in blocks.values():
        if POOL in of_pod:
            of_pod[POOL] = [block for of_one in of_pod.values() for block in of_one]
    return {
        pod: {container: _entries(found) for container, found in of_pod.items()}
        for pod, of_pod in blocks.items()
    }


def unnamed_pods(state: EngineState, names: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    """Return the uids of pods that have memory and no name, ascending."""
    return tuple(sorted(uid for uid in state.accounting.assignments if uid not in names))


def allocatable_memory(accounting: State) -> tuple[MemoryEntry, ...]:
    """Return what pods may use of each node, used memory included."""
    return tuple(
        MemoryEntry(resource, node_id, node.table(resource).allocatable)
        for node_id, node in accounting.machine_state.items()
        for resource in present_resources(accounting)
        if node.table(resource).allocatable
    )


def _entries(blocks: Iterable[Block]) -> tuple[MemoryEntry, ...]:
    sizes: dict[tuple[str, int], int] = {}
    for block in blocks:
        for node_id in block.numa_affinity:
            sizes.setdefault((block.type, node_id), 0)
        for node_id, size_bytes in block.charges:
            sizes[block.type, node_id] = sizes.get((block.type, node_id), 0) + size_bytes
    # `memory` comes after hugepages in the alphabet, and first here.
    order = sorted(sizes, key=lambda key: (key[0] != "memory", key))
    return tuple(MemoryEntry(resource, node, sizes[resource, node]) for resource, node in order)
