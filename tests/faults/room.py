"""NUMA nodes with room for a container that the plugin refuses, or runs without nodes."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MEMORY, hugepages_page_size
from tests.faults.host import NO_NODES
from tests.faults.node import Container, Node, expected_sizes

_PAGE_BYTES = 4096


def single_node_with_room(
    accounting: Mapping[str, Any], container: Container, node: Node, movable: NodeSet = NO_NODES
) -> int | None:
    """Return a node with enough free resources for the container, or None.

    The nodes in `movable` have no normal memory, and are never the only ones of a container.
    None for containers of which only the pod's sum of hugepages is known.
    """
    if node.traits.hides_hugepages and any(container.pod.hugepages.values()):
        return None
    sizes = expected_sizes(container, node.traits)
    for node_id, state in accounting["machineState"].items():
        is_open = not state["numberOfAssignments"] or state["cells"] == [int(node_id)]
        if is_open and int(node_id) not in movable and _has_room(state, sizes):
            return int(node_id)
    return None


def two_nodes_with_room(
    accounting: Mapping[str, Any], container: Container, node: Node, movable: NodeSet = NO_NODES
) -> NodeSet | None:
    """Return two nodes with free resources for half of the container each, or None."""
    sizes = {
        name: _half_in_pages(size, _PAGE_BYTES if name == MEMORY else hugepages_page_size(name))
        for name, size in expected_sizes(container, node.traits).items()
    }
    machine = accounting["machineState"]
    with_room = [int(node_id) for node_id, state in machine.items() if _has_room(state, sizes)]
    for pair in combinations(with_room, 2):
        states = [machine[str(node_id)] for node_id in pair]
        is_group = all(state["cells"] == [*pair] for state in states)
        is_open = is_group or not any(state["numberOfAssignments"] for state in states)
        if is_open and not NodeSet(pair).issubset(movable):
            return NodeSet(pair)
    return None


def _has_room(node_state: Mapping[str, Any], sizes: Mapping[str, int]) -> bool:
    tables = node_state["memoryMap"]
    return all(tables.get(name, {"free": 0})["free"] >= size for name, size in sizes.items())


def _half_in_pages(size_bytes: int, page_bytes: int) -> int:
    """Return the bytes of half of the pages, rounded up."""
    pages = -(-size_bytes // page_bytes)
    return -(-pages // 2) * page_bytes
