"""CPUs of each NUMA node, in millicores.

A zone must have `cpu`: the scheduler plugin takes it for a resource of NUMA nodes, and finds no
zone for a Guaranteed pod if none has it.

Without a CPU manager the kernel runs a container on any CPU, and nothing refuses it for the CPUs of
a node. The object counts the CPU request of a container where its memory is. So pods spread over
nodes by CPU too, and threads can run beside their memory. The cost: a container that requests more
CPUs than one node has is not scheduled with ``single-numa-node``, as with the static CPU manager.

With the kubelet's static CPU manager only its exclusive CPUs count: it gives a container any CPUs
that are neither exclusive nor reserved, whatever others request.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nri_numamem.engine.core.cpu_requests import MILLICORES, split_by_cpus
from nri_numamem.engine.core.state import EngineState
from nri_numamem.export.amounts import Amounts
from nri_numamem.memorymanager import nodes_of
from nri_numamem.numa import CpuSet, NodeSet, NumaNode

_NO_CPUS = CpuSet()


@dataclass(frozen=True, slots=True)
class CpuUse:
    """What is known about the use of CPUs."""

    requests: Mapping[str, int] = field(default_factory=dict)
    """Container id -> requested millicores, of running containers whose request is known."""
    reserved: CpuSet = _NO_CPUS
    """The kubelet's reservedSystemCPUs."""
    exclusive: CpuSet | None = None
    """The CPUs that containers have for themselves; None without a static CPU manager."""


def cpu_amounts(
    nodes: Iterable[NumaNode], state: EngineState, use: CpuUse
) -> Mapping[int, Amounts]:
    """Return node id -> amounts in millicores."""
    allowed = {node.node_id: node.cpus - use.reserved for node in nodes}
    taken = dict.fromkeys(allowed, 0)
    if use.exclusive is None:
        for placed, millicores in _placed_requests(state, use.requests):
            weights = {n: len(cpus) for n, cpus in allowed.items() if n in placed}
            for node_id, share in split_by_cpus(millicores, weights).items():
                taken[node_id] += share
    else:
        taken = {n: MILLICORES * len(cpus & use.exclusive) for n, cpus in allowed.items()}
    return {
        node.node_id: _amounts(node, allowed[node.node_id], taken[node.node_id]) for node in nodes
    }


def running_containers(state: EngineState) -> dict[str, NodeSet]:
    """Return container id -> nodes, of the running containers that have nodes."""
    found = (
        (holder.container_id, nodes_of(state.blocks(key) or ()))
        for key, holder in state.holders.items()
        if not holder.ended
    )
    return {container_id: nodes for container_id, nodes in found if nodes}


def _placed_requests(
    state: EngineState, requests: Mapping[str, int]
) -> Iterable[tuple[NodeSet, int]]:
    for container_id, nodes in running_containers(state).items():
        yield nodes, requests.get(container_id, 0)


def _amounts(node: NumaNode, allowed: CpuSet, taken: int) -> Amounts:
    allocatable = MILLICORES * len(allowed)
    return Amounts(MILLICORES * len(node.cpus), allocatable, max(0, allocatable - taken))
