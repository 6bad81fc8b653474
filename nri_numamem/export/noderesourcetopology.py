"""The object NodeResourceTopology of topology.node.k8s.io/v1alpha2.

One zone per NUMA node that has CPUs and that the plugin uses. Attributes have the kubelet's words.
Nothing in the object depends on time or on the order of dictionaries, so equal states give equal
objects.
Sources: github.com/k8stopologyawareschedwg/noderesourcetopology-api, pkg/apis/topology/v1alpha2;
sigs.k8s.io/scheduler-plugins, pkg/noderesourcetopology (filter.go, pluginhelpers.go, nodeconfig).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.partitions.layouts import layout_of
from nri_numamem.export.amounts import (
    Amounts,
    CpuUse,
    cpu_amounts,
    device_amounts,
    memory_amounts,
    resource_of_cpus,
    resource_of_units,
)
from nri_numamem.export.pods import (
    ANNOTATION,
    ATTRIBUTE,
    METHOD_ALL,
    METHOD_ATTRIBUTE,
    fingerprint,
)
from nri_numamem.kubelet.host_resources import KubeletResources
from nri_numamem.memorymanager import PoolUse
from nri_numamem.numa import NodeSet, NodeUse, NumaNode

API_VERSION = "topology.node.k8s.io/v1alpha2"
KIND = "NodeResourceTopology"

MANAGED_BY = ("app.kubernetes.io/managed-by", "nri-numamem")
"""The label by which all objects of this program are found, and deleted."""

PARTITION = "partition"
"""The attribute of a zone with the name of the node's partition; no scheduler reads it."""

ZONE_LIMIT = 64
"""The scheduler plugin has bit masks of 64 nodes, and fails with a panic for node 64."""
# The kubelet's limit unless max-allowable-numa-nodes raises it; the plugin has none.
_DEFAULT_MAX_NODES = 8


@dataclass(frozen=True, slots=True)
class Host:
    """What the object shows of a host."""

    node_name: str
    """The name of the Node object."""
    context: Context
    state: EngineState
    """With its accounting, and with the pods' limits."""
    pool_use: PoolUse | None = None
    """The kernel's hugepage pools; None if they cannot be read."""
    cpus: CpuUse = field(default_factory=CpuUse)
    pods: frozenset[tuple[str, str]] | None = None
    """(namespace, name) of the pods that count; None if not all are known."""
    kubelet: KubeletResources = field(default_factory=KubeletResources)
    """For its devices; empty without its PodResources socket."""


def zone_nodes(context: Context) -> tuple[NumaNode, ...]:
    """Return the NUMA nodes that have a zone, ascending.

    A node without CPUs has none: a Guaranteed pod requests CPUs too, and all from one zone.
    """
    return tuple(
        node
        for node in context.machine.nodes
        if node.cpus
        and node.node_id < ZONE_LIMIT
        and context.classification.use_of(node.node_id) is not NodeUse.EXCLUDED
    )


def nodes_without_zone(context: Context) -> NodeSet:
    """Return the nodes that the plugin uses for memory, and that have no zone."""
    shown = {node.node_id for node in zone_nodes(context)}
    return NodeSet(
        node.node_id
        for node in context.machine.nodes
        if node.memory_bytes
        and node.node_id not in shown
        and context.classification.use_of(node.node_id) is not NodeUse.EXCLUDED
    )


def noderesourcetopology(host: Host) -> dict[str, object]:
    """Return the object."""
    nodes = zone_nodes(host.context)
    memory = memory_amounts(host.context, host.state, host.pool_use)
    cpus = cpu_amounts(nodes, host.state, host.cpus)
    devices = device_amounts(host.kubelet)
    partitions = partition_names(host.context)
    signature = None if host.pods is None else fingerprint(host.pods)
    metadata: dict[str, object] = {
        "name": host.node_name,
        "labels": dict([MANAGED_BY]),
    }
    if signature is not None:
        metadata["annotations"] = {ANNOTATION: signature}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "attributes": _attributes(host.context, len(nodes), signature),
        "zones": [
            _zone(
                node,
                nodes,
                cpus[node.node_id],
                {**memory[node.node_id], **devices.get(node.node_id, {})},
                partitions.get(node.node_id, ""),
            )
            for node in nodes
        ],
    }


def _attributes(context: Context, zones: int, signature: str | None) -> list[dict[str, str]]:
    values = {
        "topologyManagerPolicy": context.policy.topology_manager_policy,
        "topologyManagerScope": context.policy.topology_manager_scope,
        # Scores become negative if there are more zones.
        "topologyManagerMaxNUMANodes": str(max(_DEFAULT_MAX_NODES, zones)),
    }
    if signature is not None:
        values |= {ATTRIBUTE: signature, METHOD_ATTRIBUTE: METHOD_ALL}
    return [{"name": name, "value": value} for name, value in values.items()]


def partition_names(context: Context) -> dict[int, str]:
    """Return node id -> the name of its partition; empty without the setting."""
    layout = layout_of(context)
    if layout is None:
        return {}
    found = dict.fromkeys(layout.rest.nodes, layout.rest.partition.name)
    for each in layout.entries:
        found |= dict.fromkeys(each.nodes, each.partition.name)
    return found


def _zone(
    node: NumaNode,
    nodes: Iterable[NumaNode],
    cpu: Amounts,
    others: Mapping[str, Amounts],
    partition: str,
) -> dict[str, object]:
    resources = [resource_of_cpus(cpu)]
    resources += [resource_of_units(name, amounts) for name, amounts in others.items()]
    return {
        "name": _name(node),
        "type": "Node",
        **({"attributes": [{"name": PARTITION, "value": partition}]} if partition else {}),
        "costs": [
            {"name": _name(other), "value": node.distance_to(other.node_id)} for other in nodes
        ],
        "resources": resources,
    }


def _name(node: NumaNode) -> str:
    return f"node-{node.node_id}"
