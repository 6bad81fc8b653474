"""Metrics of the NUMA nodes' classes, and of what runs on excluded nodes."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from nri_numamem.engine.core.context import Context
from nri_numamem.memorymanager import State
from nri_numamem.numa import NodeSet
from nri_numamem.observe.metrics.families import PREFIX

_LABELS = ("numa_node", "class", "use", "memory_tier")


def node_metrics(context: Context, accounting: State) -> Iterator[Metric]:
    """Yield class and use of each node, and the bytes of containers on excluded nodes."""
    classes = GaugeMetricFamily(
        f"{PREFIX}node_info",
        "Class and use of the NUMA node; its memory tier, empty if unknown.",
        labels=_LABELS,
    )
    for node in context.machine.nodes:
        fields = context.class_fields(node)
        labels = (str(node.node_id), *(str(fields.get(name, "")) for name in _LABELS[1:]))
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
