"""Memory and hugepages of each NUMA node, as the engine would give them to one more pod.

With ``single-numa-node`` the scheduler plugin compares a request with one zone at a time. So a zone
shows what a Guaranteed container could get there alone: nothing on a node of a group, and nothing
on a node without normal memory. With the other policies the scheduler only ranks hosts, by sums
over several zones, and each zone shows its free bytes.

A pod begins only if its limit fits beside the outstanding amounts of the pods that have begun
(``engine.pods.outstanding``). These are sums over all nodes, so no zone shows more than what
they leave.
"""

from collections.abc import Mapping

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.pods import outstanding
from nri_numamem.export.amounts import Amounts
from nri_numamem.memorymanager import NodeState, PoolUse, State, mask_unavailable_hugepages
from nri_numamem.memorymanager.candidates import free_bytes
from nri_numamem.memorymanager.state import present_resources
from nri_numamem.topologymanager import TopologyPolicy


def memory_amounts(
    context: Context, state: EngineState, pool_use: PoolUse | None
) -> Mapping[int, Mapping[str, Amounts]]:
    """Return node id -> resource -> amounts in bytes, of the nodes of the accounting.

    `memory` comes first, then the page sizes of which the machine has any page, ascending.
    `pool_use` is None if the kernel's pools cannot be read; the accounting alone counts then.
    """
    accounting = state.accounting
    if pool_use is not None:
        accounting = mask_unavailable_hugepages(accounting, pool_use).state
    resources = present_resources(accounting)
    most = {name: _most_for_a_pod(context, state, accounting, name) for name in resources}
    is_single = context.topology.policy is TopologyPolicy.SINGLE_NUMA_NODE
    return {
        node_id: {name: _amounts(node, name, most[name], is_single=is_single) for name in resources}
        for node_id, node in accounting.machine_state.items()
    }


def _most_for_a_pod(context: Context, state: EngineState, accounting: State, resource: str) -> int:
    """Return the bytes with which a pod may begin, on all nodes together."""
    free = free_bytes(accounting, accounting.machine_state, resource)
    if not context.rejects or context.places_pods:
        return free  # such pods are not compared with the outstanding amounts
    amounts = outstanding.computed(state).outstanding.values()
    return max(0, free - sum(of_pod.get(resource, 0) for of_pod in amounts))


def _amounts(node: NodeState, resource: str, most: int, *, is_single: bool) -> Amounts:
    table = node.table(resource)
    free = table.free
    if is_single and (len(node.cells) > 1 or node.lacks_normal_memory):
        free = 0
    return Amounts(table.total, table.allocatable, min(free, most))
