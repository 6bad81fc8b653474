"""The demo's data: the machine, the configuration, and the steps.

The machine has two sockets with two NUMA nodes each (sub-NUMA clustering), so distances differ
between nodes of one socket and of two. Each pod shows another rule of placement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nri_numamem.memorymanager import QosClass
from nri_numamem.memorymanager.state_json import StateJson
from nri_numamem.numa.cpuset import CpuSet
from nri_numamem.numa.machine import Machine, NumaNode

GI = 1 << 30
PAGE_2MI = 2 << 20
PAGE_1GI = 1 << 30

# Distances of two-socket servers with sub-NUMA clustering.
_SAME_NODE, _SAME_SOCKET, _OTHER_SOCKET = 10, 12, 21
_CPUS_PER_NODE = 16


def machine() -> Machine:
    """Return 4 NUMA nodes on 2 sockets; each has 64Gi, of which 4Gi and 2Gi are hugepages."""
    return Machine(tuple(_node(node_id) for node_id in range(4)))


def _node(node_id: int) -> NumaNode:
    first_cpu = node_id * _CPUS_PER_NODE
    return NumaNode(
        node_id=node_id,
        memory_bytes=64 * GI,
        hugepages={PAGE_2MI: 1024, PAGE_1GI: 4},
        cpus=CpuSet(range(first_cpu, first_cpu + _CPUS_PER_NODE)),
        distances={other: _distance(node_id, other) for other in range(4)},
    )


def _distance(node_id: int, other: int) -> int:
    if node_id == other:
        return _SAME_NODE
    return _SAME_SOCKET if node_id // 2 == other // 2 else _OTHER_SOCKET


MACHINE_TEXT = (
    "4 NUMA nodes with 64Gi each, two per socket. The distance is 12 within a socket and 21 "
    "between sockets. Each node has 1Gi reserved for the system and hugepage pools of 4 pages of "
    "1Gi and 1,024 pages of 2Mi."
)

# As the kubelet requires, the nodes' reservations add up to the sum of kubeReserved,
# systemReserved and the eviction threshold.
CONFIG = """\
reservedMemory:
  - {numaNode: 0, limits: {memory: 1Gi}}
  - {numaNode: 1, limits: {memory: 1Gi}}
  - {numaNode: 2, limits: {memory: 1Gi}}
  - {numaNode: 3, limits: {memory: 1Gi}}
kubeReserved: {memory: 2Gi}
systemReserved: {memory: 1948Mi}
evictionHard: {memory.available: 100Mi}
"""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod with one container; amounts in bytes, hugepages by page size in bytes."""

    name: str
    container: str
    qos: QosClass
    memory_bytes: int = 0
    hugepages: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started:
    """What a container got when it was created."""

    cpuset_mems: str = ""
    """Kernel list format; "" if the container is not pinned."""
    hugepage_limits: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> limit in bytes."""


class RefusedError(Exception):
    """A container was refused; the text is the plugin's error."""


class Host(Protocol):
    """A host on which the demo starts and removes pods."""

    @property
    def pod_names(self) -> Mapping[str, str]:
        """Pod uid -> name of every pod that was started."""

    def accounting(self) -> StateJson:
        """Return the plugin's accounting."""

    def start_pod(self, spec: "PodSpec") -> Started:
        """Start a pod with its container; raise RefusedError, without it, if refused."""

    def remove_pod(self, spec: "PodSpec") -> None:
        """Stop and remove a pod."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the demo, which starts or removes a pod."""

    title: str
    pod: PodSpec
    removes: bool = False


_DATABASE = PodSpec("database", "postgres", QosClass.GUARANTEED, 48 * GI)
_ANALYTICS = PodSpec("analytics", "spark", QosClass.GUARANTEED, 90 * GI)
_ROUTER = PodSpec("router", "dpdk", QosClass.GUARANTEED, 16 * GI, {PAGE_1GI: 4 * GI})
_WEB = PodSpec("web", "nginx", QosClass.BURSTABLE, 2 * GI)
_BATCH = PodSpec("batch", "job", QosClass.BEST_EFFORT)
_CACHE = PodSpec("cache", "redis", QosClass.GUARANTEED, 48 * GI)

STEPS = (
    Step("A database that fits on one node", _DATABASE),
    Step("More than one node can hold: the two closest nodes", _ANALYTICS),
    Step("A DPDK router with 1Gi hugepages: memory and hugepages on one node", _ROUTER),
    Step("A Burstable pod: not managed", _WEB),
    Step("A BestEffort pod: not managed", _BATCH),
    Step("A cache that fits nowhere: rejected, with the reason", _CACHE),
    Step("The analytics pod is removed", _ANALYTICS, removes=True),
    Step("The cache is started again", _CACHE),
)
