"""The fingerprint of a host's pods, and the memory of containers for the PodResources API.

The scheduler plugin keeps its own count of the pods that it has sent to a host, until the object
shows the same set of pods. Both sides compute the fingerprint of the set, in the format of
podfingerprint, version 1: "pfp0v001" and 16 hexadecimal digits, an XXH64 over the ascending XXH64
values of all pods. The value of a pod is that of its name, with the value of its namespace as seed.
Sources: github.com/k8stopologyawareschedwg/podfingerprint; doc/xxhash_spec.md of xxHash.

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

ATTRIBUTE = "nodeTopologyPodsFingerprint"
METHOD_ATTRIBUTE = "nodeTopologyPodsFingerprintMethod"
ANNOTATION = "topology.node.k8s.io/fingerprint"
"""Read by releases of the scheduler plugin that are older than the attribute."""
METHOD_ALL = "all"
"""All pods count, not only those with exclusive resources."""

_PREFIX = "pfp0v001"

_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5
_STRIPE_BYTES = 32


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

    Two pods with one name, one of them ending, count together. A pod that the plugin keeps memory
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


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods: (namespace, name), in any order; duplicates count once."""
    values = sorted(xxh64(name.encode(), xxh64(space.encode())) for space, name in set(pods))
    digest = xxh64(b"".join(value.to_bytes(8, "little") for value in values))
    return f"{_PREFIX}{digest:016x}"


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the XXH64 hash of some bytes."""
    stripes = len(data) // _STRIPE_BYTES * _STRIPE_BYTES
    value = _of_stripes(data[:stripes], seed) if stripes else (seed + _P5) & _MASK
    value = (value + len(data)) & _MASK
    rest = data[stripes:]
    while len(rest) >= 8:
        value ^= _round(0, int.from_bytes(rest[:8], "little"))
        value = (_rotate(value, 27) * _P1 + _P4) & _MASK
        rest = rest[8:]
    if len(rest) >= 4:
        value ^= (int.from_bytes(rest[:4], "little") * _P1) & _MASK
        value = (_rotate(value, 23) * _P2 + _P3) & _MASK
        rest = rest[4:]
    for byte in rest:
        value = (_rotate(value ^ (byte * _P5) & _MASK, 11) * _P1) & _MASK
    return _mixed(value)


def _of_stripes(data: bytes, seed: int) -> int:
    lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
    for begin in range(0, len(data), _STRIPE_BYTES):
        for index in range(4):
            word = data[begin + 8 * index : begin + 8 * index + 8]
            lanes[index] = _round(lanes[index], int.from_bytes(word, "little"))
    turns = zip(lanes, (1, 7, 12, 18), strict=True)
    value = sum(_rotate(lane, bits) for lane, bits in turns) & _MASK
    for lane in lanes:
        value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return value


def _round(lane: int, word: int) -> int:
    return (_rotate((lane + word * _P2) & _MASK, 31) * _P1) & _MASK


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _mixed(value: int) -> int:
    value = ((value ^ (value >> 33)) * _P2) & _MASK
    value = ((value ^ (value >> 29)) * _P3) & _MASK
    return value ^ (value >> 32)
