"""What the demo plays: a made-up machine, and the pods that come to it.

Only data. The machine has two sockets that are split in two (sub-NUMA clustering), so that two
nodes can be near or far from each other; the pods are chosen so that each shows another rule.
"""

from collections.abc import Mapping
from dataclasses import field

from nri_numamem.engine.qos import QosClass
from nri_numamem.memorymanager.machine import Machine, NumaNode
from nri_numamem.values import valueclass

GI = 1 << 30
PAGE_2MI = 2 << 20
PAGE_1GI = 1 << 30

# Distances as two-socket servers with sub-NUMA clustering report them.
_SAME_NODE, _SAME_SOCKET, _OTHER_SOCKET = 10, 12, 21
_CPUS_PER_NODE = 16


def machine() -> Machine:
    """Return 4 NUMA nodes on 2 sockets: 64Gi each, of which 4Gi and 2Gi are hugepage pools."""
    return Machine(tuple(_node(node_id) for node_id in range(4)))


def _node(node_id: int) -> NumaNode:
    first_cpu = node_id * _CPUS_PER_NODE
    return NumaNode(
        node_id=node_id,
        memory_bytes=64 * GI,
        hugepages={PAGE_2MI: 1024, PAGE_1GI: 4},
        cpus=tuple(range(first_cpu, first_cpu + _CPUS_PER_NODE)),
        distances={other: _distance(node_id, other) for other in range(4)},
    )


def _distance(node_id: int, other: int) -> int:
    if node_id == other:
        return _SAME_NODE
    return _SAME_SOCKET if node_id // 2 == other // 2 else _OTHER_SOCKET


MACHINE_TEXT = (
    "4 NUMA nodes with 64Gi each, two per socket. Distance: 12 within a socket, 21 across. "
    "On each node 1Gi is reserved for the system, 4 pages of 1Gi and 1,024 of 2Mi are set aside."
)

# The kubelet's rule: the nodes' reservations add up to kubeReserved, systemReserved and the
# eviction threshold (100Mi unless set).
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


@valueclass(frozen=True, slots=True)
class PodSpec:
    """A pod with one container; amounts in bytes, hugepages by page size in bytes."""

    name: str
    container: str
    qos: QosClass
    memory_bytes: int = 0
    hugepages: Mapping[int, int] = field(default_factory=dict)


@valueclass(frozen=True, slots=True)
class Step:
    """Something that happens: `pod` is started, or removed."""

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
    Step("A database that fits one node", _DATABASE),
    Step("More than any node has: the closest two that are free", _ANALYTICS),
    Step("A DPDK router with 1Gi hugepages: memory and pages on the same node", _ROUTER),
    Step("Burstable: left alone", _WEB),
    Step("BestEffort: left alone", _BATCH),
    Step("A cache that fits nowhere now: refused, with the reason", _CACHE),
    Step("The analytics pod is removed", _ANALYTICS, removes=True),
    Step("The cache is tried again", _CACHE),
)
