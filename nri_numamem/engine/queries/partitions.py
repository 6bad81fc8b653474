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
