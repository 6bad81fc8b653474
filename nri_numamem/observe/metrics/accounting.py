"""Metrics of the accounting: containers, NUMA nodes, and what still fits."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from nri_numamem.engine.admission.alignment import misaligned_containers
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import cpu_requests
from nri_numamem.engine.core.state import POOL, EngineState
from nri_numamem.engine.cpusets.check import unpinned_containers
from nri_numamem.engine.records.containers import (
    RunningUnpinnedNoCapacity,
    UnpinnedNoCapacity,
    UnreportedContainerFound,
)
from nri_numamem.engine.records.running import CpusetMemsMissing
from nri_numamem.memorymanager import NodeState, State
from nri_numamem.memorymanager.largest import largest_on_group, largest_on_node
from nri_numamem.observe.metrics.families import PREFIX, gauge, gauges
from nri_numamem.observe.metrics.memory_nodes import resources_of, shortfall_bytes
from nri_numamem.topologymanager.merge import TopologyPolicy

# Events after which a container of a Guaranteed pod runs unpinned.
UNPINNED_OUTCOMES = (
    UnpinnedNoCapacity,
    RunningUnpinnedNoCapacity,
    UnreportedContainerFound,
    CpusetMemsMissing,
)


def container_metrics(state: EngineState) -> Iterator[Metric]:
    """Yield the numbers of pods, containers and assignments."""
    live = sum(not h.ended and h.key[1] != POOL for h in state.holders.values())
    assigned = sum(len(containers) for containers in state.accounting.assignments.values())
    yield gauge("running_pods", "Pods with a running sandbox.", len(state.pods))
    yield gauge("running_containers", "Running containers with assignments.", live)
    misaligned = sum(1 for _ in misaligned_containers(state))
    text = "Running containers whose memory is on no NUMA node of their CPUs or of a device."
    yield gauge("misaligned_containers", text, misaligned)
    text = "Running containers with assignments whose cgroup has no cpuset.mems."
    yield gauge("unpinned_containers", text, len(unpinned_containers(state)))
    yield gauges(
        "guaranteed_unpinned_containers",
        "Running containers of Guaranteed pods without NUMA nodes.",
        "outcome",
        _unpinned(state),
    )
    yield gauge("assignments", "Assignments, with those that pods keep for reuse.", assigned)


def accounting_metrics(context: Context, accounting: State) -> Iterator[Metric]:
    """Yield the tables of the NUMA nodes, and what fits or exceeds them."""
    yield from _tables(accounting.machine_state)
    yield _shortfall(context, accounting)
    yield _largest(context, accounting)


def cpu_metrics(context: Context, state: EngineState) -> Iterator[Metric]:
    """Yield the CPU requests of each node, where they can decide."""
    if context.compares_cpu_requests():
        found = cpu_requests(state, context.machine)
        text = "CPU requests of the running containers with assignments on the NUMA node."
        values = {str(node_id): millicores for node_id, millicores in found.items()}
        yield gauges("cpu_requests_millicores", text, "numa_node", values)


def _tables(nodes: Mapping[int, NodeState]) -> Iterator[Metric]:
    tables = [
        (str(node_id), resource, table)
        for node_id, node in nodes.items()
        for resource, table in node.memory_map.items()
    ]
    figures = {
        "total": "Bytes of the NUMA node.",
        "system_reserved": "Bytes reserved for the system.",
        "allocatable": "Bytes for pods.",
        "reserved": "Bytes assigned to containers.",
        "free": "Bytes free for containers.",
    }
    for name, text in figures.items():
        metric = GaugeMetricFamily(
            f"{PREFIX}node_{name}_bytes", text, labels=["numa_node", "resource"]
        )
        for node_id, resource, table in tables:
            metric.add_metric([node_id, resource], getattr(table, name))
        yield metric
    assignments = {str(node_id): node.number_of_assignments for node_id, node in nodes.items()}
    yield gauges("node_assignments", "Blocks on the NUMA node.", "numa_node", assignments)
    sizes = {str(node_id): len(node.cells) for node_id, node in nodes.items()}
    yield gauges(
        "node_group_size",
        "NUMA nodes in its group; 1 if single.",
        "numa_node",
        sizes,
    )


def _unpinned(state: EngineState) -> Mapping[str, int]:
    """Return event -> number of containers that run unpinned since then."""
    counts: dict[str, int] = dict.fromkeys((kind.event for kind in UNPINNED_OUTCOMES), 0)
    for reason in state.reasons.unpinned.values():
        counts[reason.event] = counts.get(reason.event, 0) + 1
    return counts


def _shortfall(context: Context, accounting: State) -> Metric:
    text = "Memory of running containers exceeding their nodes' allocatable."
    return gauges("shortfall_bytes", text, "resource", shortfall_bytes(context, accounting))


def _largest(context: Context, accounting: State) -> Metric:
    metric = GaugeMetricFamily(
        f"{PREFIX}largest_request_bytes",
        "Most free bytes on one NUMA node, or on a group of several, whatever the CPUs.",
        labels=["nodes", "resource"],
    )
    allows_groups = context.topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE
    for resource in resources_of(accounting):
        single = largest_on_node(accounting, resource).size_bytes
        metric.add_metric(["one", resource], single)
        group = largest_on_group(accounting, resource).size_bytes if allows_groups else 0
        metric.add_metric(["group", resource], group)
    return metric
