"""The partitions of a context's machine, and the accounting of each."""

from collections.abc import Iterator

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.features.partitions.feature import PartitionedNodes
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.state import without_nodes
from nri_numamem.numa import Layout, NodeSet, PartitionNodes, PartitionsError


def layout_of(context: Context) -> Layout | None:
    """Return the partitions on the machine of a context; None without the setting."""
    for feature in context.all_features:
        if isinstance(feature, PartitionedNodes):
            return feature.layout(context)
    return None


def check_rest(context: Context) -> None:
    """Raise PartitionsError if the machine has all nodes of the partitions, and no others."""
    layout = layout_of(context)
    if layout is None or layout.rest.nodes or any(each.problem for each in layout.entries):
        return
    raise PartitionsError(
        f"partitions: the exclusive ones have all NUMA nodes of this machine "
        f"({context.machine.node_set}); leave at least one node to the other pods"
    )


def partitions_on(context: Context) -> tuple[PartitionNodes, ...]:
    """Return the partitions on the machine of a context, the rest last; none without effect."""
    layout = layout_of(context)
    return () if layout is None or not context.is_static else layout.partitions


def accounting_by_partition(
    context: Context, accounting: State
) -> Iterator[tuple[PartitionNodes, State]]:
    """Yield the partitions, the rest last, and the accounting of the nodes of their pods.

    Nothing without the setting. The nodes of a partition that is not exclusive are also the rest's.
    """
    known = NodeSet(accounting.machine_state)
    for found in partitions_on(context):
        yield found, without_nodes(accounting, known - found.nodes)


def nodes_of_partition(context: Context, node_id: int) -> NodeSet | None:
    """Return the nodes of the partition that has a node, or those that no partition has.

    A pod that moves between them stays on nodes where it may be. None without the setting.
    """
    layout = layout_of(context)
    if layout is None:
        return None
    rest = layout.rest.nodes
    for each in layout.entries:
        if node_id in each.nodes:
            return each.nodes
        rest = rest - each.nodes
    return rest
