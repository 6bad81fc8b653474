"""The partitions of a machine, each with the accounting of its NUMA nodes."""

from collections.abc import Iterator

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.features.partitions.feature import layout_of
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.state import without_nodes
from nri_numamem.numa import NodeSet, PartitionNodes


def accounting_by_partition(
    context: Context, accounting: State
) -> Iterator[tuple[PartitionNodes, State]]:
    """Yield the partitions, the rest last, and the accounting of the nodes of their pods.

    Nothing without the setting. The nodes of a partition that is not exclusive are also the rest's.
    """
    layout = layout_of(context)
    if layout is not None and context.is_static:
        known = NodeSet(accounting.machine_state)
        for found in (*layout.entries, layout.rest):
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
