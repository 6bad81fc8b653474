"""Amounts of each resource in a zone, and their text.

Quantities are decimal: bytes and devices without a suffix, CPUs as a number or in millicores.

A zone must have `cpu`: the scheduler plugin considers it a resource of NUMA nodes, and finds no
zone for a Guaranteed pod if none has it. Without a CPU manager the kernel runs a container on any
CPU, and no container is refused for the CPUs of a node. The object counts the CPU request of a
container where its memory is. So pods spread over nodes by CPU too, and threads can run beside
their memory. The cost: a container that requests more CPUs than one node has is not scheduled with
``single-numa-node``, as with the static CPU manager. With the kubelet's static CPU manager only its
exclusive CPUs count: it gives a container any CPUs that are neither exclusive nor reserved.

Memory and hugepages are as the engine would give them to one more pod. With ``single-numa-node``
the scheduler plugin compares a request with one zone at a time. So a zone shows what a Guaranteed
container could get there alone: nothing on a node of a group, and nothing on a node without normal
memory. With the other policies the scheduler only ranks hosts, by sums over several zones, and each
zone shows its free bytes. A pod begins only if its limit fits beside the outstanding amounts of the
pods that have begun (``engine.pods.outstanding``). These are sums over all nodes, so no zone shows
more than what they leave. What is set aside is not available, also not for whom it is set aside.

Devices are as the kubelet lists them. The Topology Manager aligns devices too, so the scheduler
plugin has to count them per node. A device near several nodes counts on each of them, as other
exporters of the object count it. Devices without NUMA nodes are not in the object; the scheduler
counts them for the whole host.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nri_numamem.engine.core.allowed_nodes import all_rooms, rooms_left
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import MILLICORES, split_by_cpus
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.pods import outstanding
from nri_numamem.kubelet.host_resources import KubeletResources
from nri_numamem.memorymanager import (
    NodeState,
    PoolUse,
    State,
    mask_unavailable_hugepages,
    nodes_of,
)
from nri_numamem.memorymanager.candidates import free_bytes
from nri_numamem.memorymanager.earmarks import Room, set_aside
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.memorymanager.state import present_resources
from nri_numamem.numa import CpuSet, NodeSet, NumaNode
from nri_numamem.topologymanager import TopologyPolicy

_NO_CPUS = CpuSet()


@dataclass(frozen=True, slots=True)
class Amounts:
    """The three amounts of the object, in bytes, millicores or devices."""

    capacity: int
    """What the NUMA node has."""
    allocatable: int
    """What pods may use of it."""
    available: int
    """What the next pod gets. The scheduler uses only this one."""


def resource_of_units(name: str, amounts: Amounts) -> dict[str, str]:
    """Return the entry of a resource that is counted in bytes or devices."""
    return _resource(name, str(amounts.capacity), str(amounts.allocatable), str(amounts.available))


def resource_of_cpus(amounts: Amounts) -> dict[str, str]:
    """Return the entry of `cpu`."""
    shown = map(_cpus, (amounts.capacity, amounts.allocatable, amounts.available))
    return _resource("cpu", *shown)


def _resource(name: str, capacity: str, allocatable: str, available: str) -> dict[str, str]:
    return {
        "name": name,
        "capacity": capacity,
        "allocatable": allocatable,
        "available": available,
    }


def _cpus(millicores: int) -> str:
    """Return the canonical form, as the API server shows it."""
    cpus, rest = divmod(millicores, MILLICORES)
    return f"{millicores}m" if rest else str(cpus)


def memory_amounts(
    context: Context, state: EngineState, pool_use: PoolUse | None
) -> Mapping[int, Mapping[str, Amounts]]:
    """Return node id -> resource -> amounts in bytes, of the nodes of the accounting.

    `memory` comes first, then the page sizes that the machine has pages of, ascending.
    `pool_use` is None if the kernel's pools cannot be read; the accounting alone counts then. The
    share of claims is not available, because the amounts are for pods without claims.
    """
    is_single = context.topology.policy is TopologyPolicy.SINGLE_NUMA_NODE
    rooms = all_rooms(context, state)
    return _amounts(context, state, pool_use, rooms, is_single=is_single)


def single_node_amounts(
    context: Context, state: EngineState, pool_use: PoolUse | None
) -> Mapping[int, Mapping[str, Amounts]]:
    """Return the amounts of memory_amounts(); available is what a claim gets on one node."""
    return _amounts(context, state, pool_use, rooms_left(state), is_single=True)


def _amounts(
    context: Context,
    state: EngineState,
    pool_use: PoolUse | None,
    rooms: Mapping[str, Room],
    *,
    is_single: bool,
) -> Mapping[int, Mapping[str, Amounts]]:
    masked = MaskedState(state.accounting)
    if pool_use is not None:
        masked = mask_unavailable_hugepages(state.accounting, pool_use)
    accounting = set_aside(masked, rooms).state
    resources = present_resources(state.accounting)
    most = {name: _most_for_a_pod(context, state, accounting, name) for name in resources}
    return {
        node_id: {
            name: _of_memory(
                node, accounting.machine_state.get(node_id), name, most[name], is_single=is_single
            )
            for name in resources
        }
        for node_id, node in state.accounting.machine_state.items()
    }


def _most_for_a_pod(context: Context, state: EngineState, accounting: State, resource: str) -> int:
    """Return the bytes with which a pod may begin, on all nodes together."""
    free = free_bytes(accounting, accounting.machine_state, resource)
    if not context.rejects or context.places_pods:
        return free  # such pods are not compared with the outstanding amounts
    amounts = outstanding.computed(state).outstanding.values()
    return max(0, free - sum(of_pod.get(resource, 0) for of_pod in amounts))


def _of_memory(
    node: NodeState, left: NodeState | None, resource: str, most: int, *, is_single: bool
) -> Amounts:
    """Return the amounts of a node; `left` is what placements see of it, None if nothing."""
    table = node.table(resource)
    free = 0 if left is None else left.table(resource).free
    if is_single and (len(node.cells) > 1 or node.lacks_normal_memory):
        free = 0
    return Amounts(table.total, table.allocatable, min(free, most))


def device_amounts(resources: KubeletResources) -> Mapping[int, Mapping[str, Amounts]]:
    """Return node id -> resource -> amounts in devices, both ascending."""
    ids: dict[tuple[int, str], set[str]] = {}
    for devices in resources.devices:
        for node_id in devices.nodes if devices.ids else ():
            ids.setdefault((node_id, devices.resource), set()).update(devices.ids)
    found: dict[int, dict[str, Amounts]] = {}
    for (node_id, resource), present in sorted(ids.items()):
        free = sum((resource, device_id) not in resources.used_devices for device_id in present)
        amounts = Amounts(len(present), len(present), free)
        found.setdefault(node_id, {})[resource] = amounts
    return found


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
        for container_id, placed in running_containers(state).items():
            weights = {n: len(cpus) for n, cpus in allowed.items() if n in placed}
            requested = use.requests.get(container_id, 0)
            for node_id, share in split_by_cpus(requested, weights).items():
                taken[node_id] += share
    else:
        taken = {n: MILLICORES * len(cpus & use.exclusive) for n, cpus in allowed.items()}
    return {
        node.node_id: _of_cpus(node, allowed[node.node_id], taken[node.node_id]) for node in nodes
    }


def running_containers(state: EngineState) -> dict[str, NodeSet]:
    """Return container id -> nodes, of the running containers that have nodes."""
    found = (
        (holder.container_id, nodes_of(state.blocks(key) or ()))
        for key, holder in state.holders.items()
        if not holder.ended
    )
    return {container_id: nodes for container_id, nodes in found if nodes}


def _of_cpus(node: NumaNode, allowed: CpuSet, taken: int) -> Amounts:
    allocatable = MILLICORES * len(allowed)
    return Amounts(MILLICORES * len(node.cpus), allocatable, max(0, allocatable - taken))
