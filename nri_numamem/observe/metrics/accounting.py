"""Metrics of the engine's state: containers, NUMA nodes, what still fits, and where memory is."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from nri_numamem.engine.admission.alignment import misaligned_containers
from nri_numamem.engine.core.allowed_nodes import rooms_left, without_earmarks
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import cpu_requests
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.cpusets.check import unpinned_containers
from nri_numamem.engine.features.partitions.layouts import accounting_by_partition
from nri_numamem.engine.features.residency.remote_memory import Round
from nri_numamem.engine.records.containers import (
    RunningUnpinnedNoCapacity,
    UnpinnedNoCapacity,
    UnreportedContainerFound,
)
from nri_numamem.engine.records.running import CpusetMemsMissing
from nri_numamem.memorymanager import NodeState, State
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.memorymanager.largest import largest_on_group, largest_on_node
from nri_numamem.numa.quantity import sum_mappings
from nri_numamem.observe.metrics.families import gauge
from nri_numamem.topologymanager.merge import TopologyPolicy

# Events after which a container of a Guaranteed pod runs unpinned.
UNPINNED_OUTCOMES = (
    UnpinnedNoCapacity,
    RunningUnpinnedNoCapacity,
    UnreportedContainerFound,
    CpusetMemsMissing,
)

# Figure of a node's table -> description.
_TABLES = {
    "total": "Bytes of the NUMA node.",
    "system_reserved": "Bytes reserved for the system.",
    "allocatable": "Bytes for pods.",
    "reserved": "Bytes assigned to containers.",
    "free": "Bytes free for containers.",
}
_NODE_LABELS = ("numa_node", "class", "use", "memory_tier")
_PAGE_LABELS = ("namespace", "pod", "container", "numa_node", "kind")


def container_metrics(state: EngineState) -> Iterator[Metric]:
    """Yield the numbers of pods, containers and assignments."""
    live = sum(not h.ended and isinstance(h.key[1], str) for h in state.holders.values())
    assigned = sum(len(containers) for containers in state.accounting.assignments.values())
    yield gauge("running_pods", "Pods with a running sandbox.", len(state.pods))
    yield gauge("running_containers", "Running containers with assignments.", live)
    misaligned = sum(1 for _ in misaligned_containers(state))
    text = "Running containers whose memory is on no NUMA node of their CPUs or of a device."
    yield gauge("misaligned_containers", text, misaligned)
    text = "Running containers with assignments whose cgroup has no cpuset.mems."
    yield gauge("unpinned_containers", text, len(unpinned_containers(state)))
    text = "Running containers of Guaranteed pods without NUMA nodes."
    yield gauge("guaranteed_unpinned_containers", text, _unpinned(state), "outcome")
    yield gauge("charged_claims", "Resource claims that are charged.", len(state.claims))
    yield gauge("assignments", "Assignments, with those that pods keep for reuse.", assigned)


def _unpinned(state: EngineState) -> Mapping[str, int]:
    """Return event -> number of containers that run unpinned since then."""
    counts: dict[str, int] = dict.fromkeys((kind.event for kind in UNPINNED_OUTCOMES), 0)
    for reason in state.reasons.unpinned.values():
        counts[reason.event] = counts.get(reason.event, 0) + 1
    return counts


def accounting_metrics(context: Context, state: EngineState) -> Iterator[Metric]:
    """Yield the tables of the NUMA nodes, what is set aside, and what fits or exceeds them."""
    accounting = state.accounting
    yield from _tables(accounting.machine_state)
    text = "Memory of running containers exceeding their nodes' allocatable."
    values = uncharged_bytes(context, accounting, is_excluded=False)
    yield gauge("shortfall_bytes", text, values, "resource")
    text = "Largest request that fits on one NUMA node, or on several; CPUs are not considered."
    left = without_earmarks(state, MaskedState(accounting)).state
    largest = _largest(context, left)
    yield gauge("largest_request_bytes", text, largest, "nodes", "resource")
    earmarked = sum_mappings(room.amounts for room in rooms_left(state).values())
    yield gauge("earmarked_bytes", "Bytes that are set aside and not used.", earmarked, "resource")


def _largest(context: Context, accounting: State) -> dict[tuple[str, str], int]:
    """Return "one" or "group", and resource -> bytes of the largest request that fits."""
    allows_groups = context.topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE
    largest: dict[tuple[str, str], int] = {}
    for resource in resources_of(accounting):
        largest["one", resource] = largest_on_node(accounting, resource).size_bytes
        group = largest_on_group(accounting, resource).size_bytes if allows_groups else 0
        largest["group", resource] = group
    return largest


def _tables(nodes: Mapping[int, NodeState]) -> Iterator[Metric]:
    for name, text in _TABLES.items():
        values = {
            (str(node_id), resource): getattr(table, name)
            for node_id, node in nodes.items()
            for resource, table in node.memory_map.items()
        }
        yield gauge(f"node_{name}_bytes", text, values, "numa_node", "resource")
    assignments = {str(node_id): node.number_of_assignments for node_id, node in nodes.items()}
    yield gauge("node_assignments", "Blocks on the NUMA node.", assignments, "numa_node")
    sizes = {str(node_id): len(node.cells) for node_id, node in nodes.items()}
    yield gauge("node_group_size", "NUMA nodes in its group; 1 if single.", sizes, "numa_node")


def node_metrics(context: Context, accounting: State) -> Iterator[Metric]:
    """Yield class and use of each node, and the bytes of containers on excluded nodes."""
    classes: dict[tuple[str, ...], int] = {}
    for node in context.machine.nodes:
        fields = context.class_fields(node)
        more = (str(fields.get(name, "")) for name in _NODE_LABELS[1:])
        classes[str(node.node_id), *more] = 1
    text = "Class and use of the NUMA node; its memory tier, empty if unknown."
    yield gauge("node_info", text, classes, *_NODE_LABELS)
    text = "Memory of containers that have an excluded NUMA node; it counts nowhere else."
    values = uncharged_bytes(context, accounting, is_excluded=True)
    yield gauge("excluded_nodes_bytes", text, values, "resource")


def partition_metrics(context: Context, state: EngineState) -> Iterator[Metric]:
    """Yield what each partition has and can hold; nothing without the setting."""
    usable: dict[str, int] = {}
    tables: dict[str, dict[tuple[str, ...], int]] = {"allocatable": {}, "free": {}}
    largest: dict[tuple[str, ...], int] = {}
    left = without_earmarks(state, MaskedState(state.accounting)).state
    for found, own in accounting_by_partition(context, left):
        name = found.partition.name
        usable[name] = int(not found.problem)
        for node in own.machine_state.values():
            for resource, table in node.memory_map.items():
                for figure, sums in tables.items():
                    key = (name, resource)
                    sums[key] = sums.get(key, 0) + getattr(table, figure)
        for (nodes, resource), size_bytes in _largest(context, own).items():
            largest[name, nodes, resource] = size_bytes
    if usable:
        text = "Whether the machine has the NUMA nodes of the partition."
        yield gauge("partition_usable", text, usable, "partition")
        for figure, sums in tables.items():
            text = f"{_TABLES[figure]} Sum over the NUMA nodes of the partition."
            yield gauge(f"partition_{figure}_bytes", text, sums, "partition", "resource")
        text = (
            "Largest request of a pod of the partition that fits on one NUMA node, or on several."
        )
        labels = ("partition", "nodes", "resource")
        yield gauge("partition_largest_request_bytes", text, largest, *labels)


def cpu_metrics(context: Context, state: EngineState) -> Iterator[Metric]:
    """Yield the CPU requests of each node, where they can decide."""
    if context.compares_cpu_requests():
        text = "CPU requests of the running containers with assignments on the NUMA node."
        yield _per_node("cpu_requests_millicores", text, cpu_requests(state, context.machine))


def uncharged_bytes(context: Context, accounting: State, *, is_excluded: bool) -> dict[str, int]:
    """Return resource name -> bytes that are not charged to any node.

    Either those of blocks with an excluded node, or those for which the nodes have no room.

    All resources of the machine are in the result.
    """
    excluded = context.classification.excluded
    missing = dict.fromkeys(resources_of(accounting), 0)
    for containers in accounting.assignments.values():
        for blocks in containers.values():
            for block in blocks:
                if block.numa_affinity.isdisjoint(excluded) is not is_excluded:
                    left = block.size - block.charged
                    missing[block.type] = missing.get(block.type, 0) + left
    return missing


def resources_of(accounting: State) -> list[str]:
    """Return the names of the machine's resources, sorted."""
    return sorted({name for node in accounting.machine_state.values() for name in node.memory_map})


def remote_metric(amounts: Mapping[int, int]) -> Metric:
    """Return the bytes per node on which pages lie of containers that are pinned elsewhere."""
    text = "Memory without page cache on the NUMA node, of containers pinned to other nodes."
    return _per_node("remote_bytes", text, amounts)


def residency_metrics(state: EngineState, last: Round) -> Iterator[Metric]:
    """Yield where the memory of containers is, with the setting `residency`.

    Amounts per NUMA node, and with `per_container` those of each container.
    """
    text = "Bytes of the NUMA node that the kernel has free or can reclaim."
    yield _per_node("node_available_bytes", text, last.available)
    text = "Bytes of the NUMA node that its containers may still allocate."
    yield _per_node("node_unfaulted_bytes", text, last.unfaulted)
    if last.low_nodes is not None:
        text = "Whether less is available on the NUMA node than its containers may still allocate."
        low = {node: int(node in last.low_nodes) for node in last.unfaulted}
        yield _per_node("node_head_room_low", text, low)
    text = "Running containers with much memory on other NUMA nodes than their own."
    yield gauge("remote_memory_containers", text, last.remote_containers)
    if last.per_container:
        text = "Resident memory of a container on the NUMA node, by kind of page."
        yield gauge("container_resident_bytes", text, _resident(state, last), *_PAGE_LABELS)


def _resident(state: EngineState, last: Round) -> Mapping[tuple[str, ...], int]:
    """Return the values of _PAGE_LABELS -> bytes."""
    found: dict[tuple[str, ...], int] = {}
    for container_id, pages in last.pages.items():
        holder = state.holder(container_id)
        pod = None if holder is None else state.pods.get(holder.sandbox_id)
        if holder is None or holder.ended or pod is None:
            continue
        names = (pod.namespace, pod.name, holder.container_name)
        for kind in ("anonymous", "shared", "hugetlb", "cache"):
            for node, size_bytes in getattr(pages, kind).items():
                found[*names, str(node), kind] = size_bytes
    return found


def _per_node(name: str, text: str, values: Mapping[int, int]) -> Metric:
    return gauge(name, text, {str(node): value for node, value in values.items()}, "numa_node")
