"""The largest request that the accounting can still hold, on one node and on a group.

A request of one resource is considered, and no hints of other managers: a policy that merges hints
may refuse less.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from nri_numamem.memorymanager.candidates import free_bytes
from nri_numamem.memorymanager.state import State, has_normal_memory
from nri_numamem.numa.idset import NodeSet

_NOWHERE = NodeSet()


@dataclass(frozen=True, slots=True)
class Largest:
    """The bytes that fit on a node set; the empty set for 0 bytes."""

    size_bytes: int
    nodes: NodeSet


def largest_on_node(state: State, resource: str) -> Largest:
    """Return the largest request that fits on one node; of equal nodes the lowest."""
    singles = (
        NodeSet([node_id])
        for node_id, node in state.machine_state.items()
        if len(node.cells) == 1 and not node.lacks_normal_memory
    )
    return _largest(state, resource, singles)


def largest_on_group(state: State, resource: str) -> Largest:
    """Return the largest request that fits on several nodes: a group, or all unassigned nodes."""
    return _largest(state, resource, _groups(state))


def _groups(state: State) -> Iterator[NodeSet]:
    machine = state.machine_state
    unassigned = NodeSet(n for n, node in machine.items() if not node.number_of_assignments)
    for nodes in dict.fromkeys((*(node.cells for node in machine.values()), unassigned)):
        if len(nodes) > 1 and has_normal_memory(state, nodes):
            yield nodes


def _largest(state: State, resource: str, sets: Iterator[NodeSet]) -> Largest:
    largest = Largest(0, _NOWHERE)
    for nodes in sets:
        size_bytes = free_bytes(state, nodes, resource)
        if size_bytes > largest.size_bytes:
            largest = Largest(size_bytes, nodes)
    return largest
