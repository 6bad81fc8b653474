"""Metrics of NUMA nodes: their classes, what runs on excluded ones, and where memory is."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.residency.remote_memory import Round
from nri_numamem.memorymanager import State
from nri_numamem.numa import NodeSet
from nri_numamem.observe.metrics.families import PREFIX, gauge, gauges

_NODE_LABELS = ("numa_node", "class", "use", "memory_tier")
_PAGE_LABELS = ("namespace", "pod", "container", "numa_node", "kind")


def node_metrics(context: Context, accounting: State) -> Iterator[Metric]:
    """Yield class and use of each node, and the bytes of containers on excluded nodes."""
    classes = GaugeMetricFamily(
        f"{PREFIX}node_info",
        "Class and use of the NUMA node; its memory tier, empty if unknown.",
        labels=_NODE_LABELS,
    )
    for node in context.machine.nodes:
        fields = context.class_fields(node)
        labels = (str(node.node_id), *(str(fields.get(name, "")) for name in _NODE_LABELS[1:]))
        classes.add_metric(labels, 1)
    yield classes
    excluded = GaugeMetricFamily(
        f"{PREFIX}excluded_nodes_bytes",
        "Memory of containers that have an excluded NUMA node; it counts nowhere else.",
        labels=["resource"],
    )
    for resource, size_bytes in excluded_bytes(context, accounting).items():
        excluded.add_metric([resource], size_bytes)
    yield excluded


def excluded_bytes(context: Context, accounting: State) -> Mapping[str, int]:
    """Return resource name -> bytes that are not charged because a node is excluded."""
    return uncharged_bytes(accounting, context.classification.excluded, is_excluded=True)


def shortfall_bytes(context: Context, accounting: State) -> Mapping[str, int]:
    """Return resource name -> bytes for which the nodes of containers have no room."""
    return uncharged_bytes(accounting, context.classification.excluded, is_excluded=False)


def uncharged_bytes(accounting: State, excluded: NodeSet, *, is_excluded: bool) -> dict[str, int]:
    """Return resource name -> bytes without a charge, of blocks that have an excluded node or not.

    All resources of the machine are in the result.
    """
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
    return gauges(
        "remote_bytes",
        "Memory without page cache on the NUMA node, of containers pinned to other nodes.",
        "numa_node",
        {str(node): size_bytes for node, size_bytes in amounts.items()},
    )


def residency_metrics(state: EngineState, last: Round) -> Iterator[Metric]:
    """Yield where the memory of containers is, with the setting `residency`.

    Amounts per NUMA node, and with `per_container` those of each container.
    """
    yield gauges(
        "node_available_bytes",
        "Bytes of the NUMA node that the kernel has free or can reclaim.",
        "numa_node",
        {str(node): size_bytes for node, size_bytes in last.available.items()},
    )
    yield gauges(
        "node_unfaulted_bytes",
        "Bytes of the NUMA node that its containers may still allocate.",
        "numa_node",
        {str(node): size_bytes for node, size_bytes in last.unfaulted.items()},
    )
    if last.low_nodes is not None:
        yield gauges(
            "node_head_room_low",
            "Whether less is available on the NUMA node than its containers may still allocate.",
            "numa_node",
            {str(node): int(node in last.low_nodes) for node in last.unfaulted},
        )
    text = "Running containers with much memory on other NUMA nodes than their own."
    yield gauge("remote_memory_containers", text, last.remote_containers)
    if last.per_container:
        yield _containers(state, last)


def _containers(state: EngineState, last: Round) -> Metric:
    metric = GaugeMetricFamily(
        f"{PREFIX}container_resident_bytes",
        "Resident memory of a container on the NUMA node, by kind of page.",
        labels=_PAGE_LABELS,
    )
    for container_id, pages in last.pages.items():
        holder = state.holder(container_id)
        pod = None if holder is None else state.pods.get(holder.sandbox_id)
        if holder is None or holder.ended or pod is None:
            continue
        names = (pod.namespace, pod.name, holder.key[1])
        for kind in ("anonymous", "shared", "hugetlb", "cache"):
            for node, size_bytes in getattr(pages, kind).items():
                metric.add_metric((*names, str(node), kind), size_bytes)
    return metric
