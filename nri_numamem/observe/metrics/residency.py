"""Metrics of where the memory of containers is, with the setting `residency`."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.residency.remote_memory import Round
from nri_numamem.observe.metrics.families import PREFIX, gauge, gauges

_LABELS = ("namespace", "pod", "container", "numa_node", "kind")


def residency_metrics(state: EngineState, last: Round) -> Iterator[Metric]:
    """Yield the amounts per NUMA node, and with `per_container` those of each container."""
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
        labels=_LABELS,
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
