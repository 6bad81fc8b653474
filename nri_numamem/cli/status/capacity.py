"""What the nodes and partitions of the report have, and the largest requests that fit now."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nri_numamem.cli.status.report import Amounts, Condition, Cpus, Node, PartitionRow, sums_of
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import cpu_requests, usable_millicores
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.features.partitions.layouts import accounting_by_partition
from nri_numamem.memorymanager import NodeState, State
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.memorymanager.largest import Largest, largest_on_group, largest_on_node
from nri_numamem.memorymanager.state import present_resources
from nri_numamem.topologymanager import TopologyPolicy


def largest(
    context: Context, accounting: State
) -> tuple[Mapping[str, Largest], Mapping[str, Largest]]:
    """Return resource name -> the largest request on one node, and on several."""
    resources = present_resources(accounting)
    allows_groups = context.topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE
    return (
        {name: largest_on_node(accounting, name) for name in resources},
        {name: largest_on_group(accounting, name) for name in resources if allows_groups},
    )


def partitions_of(
    context: Context, accounting: State, nodes: Sequence[Node]
) -> Iterator[PartitionRow]:
    """Yield the partitions, the rest last; `nodes` are those of the report."""
    for found, own in accounting_by_partition(context, accounting):
        inside = [node for node in nodes if node.node_id in found.nodes]
        yield PartitionRow(found, sums_of(inside), *largest(context, own))


def all_nodes(
    context: Context, state: EngineState, outside: Mapping[int, Mapping[str, int]]
) -> Iterator[Node]:
    """Yield the nodes that are not excluded; without CPUs where CPU requests do not count."""
    held, cpus = _held_bytes(state), dict[int, Cpus]()
    if context.compares_cpu_requests():
        requests, usable = cpu_requests(state, context.machine), usable_millicores(context)
        cpus = {node_id: Cpus(requests[node_id], usable[node_id]) for node_id in requests}
    for node_id, node in state.accounting.machine_state.items():
        of_node = outside.get(node_id, {})
        yield Node(
            node_id,
            node.cells,
            node.number_of_assignments > 0,
            context.classification.classes[node_id].value,
            context.classification.use_of(node_id).value,
            {
                name: _amounts(node, name, held[node_id, name], of_node.get(name, 0))
                for name in node.memory_map
            },
            cpus.get(node_id),
        )


def _amounts(node: NodeState, resource: str, held: int, outside: int) -> Amounts:
    table = node.table(resource)
    return Amounts(
        total=table.total,
        system_reserved=min(table.system_reserved, table.total),
        pools=max(0, table.total - table.system_reserved - table.allocatable),
        outside=outside,
        assigned=table.reserved - held,
        held=held,
        free=table.free - outside,
    )


def condition_of(holder: Holder) -> Condition:
    """Return the kind of a holder's row; see Condition."""
    if holder.key[1] is HolderKind.POD:
        return Condition.RESERVED
    return Condition.ENDED if holder.ended else Condition.RUNNING


def _held_bytes(state: EngineState) -> Counter[tuple[int, str]]:
    """Return (node id, resource) -> bytes that no running container uses."""
    held = Counter[tuple[int, str]]()
    for key, holder in state.holders.items():
        if condition_of(holder) is Condition.RUNNING:
            continue
        for block in state.blocks(key) or ():
            for node_id, size_bytes in block.charges:
                held[node_id, block.type] += size_bytes
    return held
