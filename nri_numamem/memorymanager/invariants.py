"""What must be true of the books after every operation; tests and the debug mode ask.

``check_books`` holds always, for books that were made here: the sums. ``check_groups`` holds as
long as no running container was adopted across groups, which is the one way to mix them.
Apart from the charges, which the kubelet does not have, its books obey the same.
"""

from collections.abc import Iterator

from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.quantity import MEMORY
from nri_numamem.memorymanager.state import Block, NodeState, State, spans_of


def check_books(state: State) -> tuple[str, ...]:
    """Return one line for each sum that is wrong."""
    return (*_wrong_tables(state), *_wrong_blocks(state), *_wrong_counts(state))


def check_groups(state: State) -> tuple[str, ...]:
    """Return one line for each node whose group is not one that all its members share."""
    return tuple(_wrong_groups(state))


def _blocks(state: State) -> Iterator[tuple[str, Block]]:
    for uid, containers in state.assignments.items():
        for name, blocks in containers.items():
            for block in blocks:
                yield f"{uid}/{name}", block


def _wrong_tables(state: State) -> Iterator[str]:
    charged: dict[tuple[int, str], int] = {}
    for _, block in _blocks(state):
        for node_id, size_bytes in block.charges:
            key = (node_id, block.type)
            charged[key] = charged.get(key, 0) + size_bytes
    for node_id, node in state.machine_state.items():
        pools = sum(table.total for name, table in node.memory_map.items() if name != MEMORY)
        for name, table in node.memory_map.items():
            where = f"node {node_id} {name}"
            taken = pools if name == MEMORY else 0
            if min(table.free, table.reserved) < 0:
                yield f"{where}: free {table.free} or reserved {table.reserved} is negative"
            if table.free + table.reserved != table.allocatable:
                yield f"{where}: free and reserved are not allocatable together"
            if table.allocatable != max(0, table.total - table.system_reserved - taken):
                yield f"{where}: allocatable {table.allocatable} is not what the total leaves"
            if table.reserved != charged.get((node_id, name), 0):
                yield f"{where}: reserved {table.reserved} is not what the blocks hold there"


def _wrong_blocks(state: State) -> Iterator[str]:
    for owner, block in _blocks(state):
        if block.charged > block.size:
            yield f"{owner} {block.type}: holds {block.charged} of {block.size} bytes"
        if not NodeSet(node_id for node_id, _ in block.charges).issubset(block.numa_affinity):
            yield f"{owner} {block.type}: holds bytes outside {block.numa_affinity}"
    for uid, names in state.reusable.items():
        for name in names:
            if state.blocks(uid, name) is None:
                yield f"{uid}/{name}: reusable but not assigned"


def _wrong_counts(state: State) -> Iterator[str]:
    spans = spans_of(state.assignments)
    for node_id, node in state.machine_state.items():
        on_node = spans.get(node_id, {})
        count = sum(on_node.values())
        if node.number_of_assignments != count:
            yield f"node {node_id}: {node.number_of_assignments} assignments, not {count}"
        if node.spans != on_node:
            yield f"node {node_id}: blocks are counted on other sets of nodes than they lie on"


def _wrong_groups(state: State) -> Iterator[str]:
    for node_id, node in state.machine_state.items():
        if node_id not in node.cells:
            yield f"node {node_id}: not in its own group {node.cells}"
        elif not node.number_of_assignments and len(node.cells) > 1:
            yield f"node {node_id}: in group {node.cells} without an assignment"
        for other_id in node.cells:
            other = state.machine_state.get(other_id)
            if not _shares(node, other):
                yield f"nodes {node_id} and {other_id}: one group, two descriptions"
    for owner, block in _blocks(state):
        for node_id in block.numa_affinity:
            if not _holds(state.machine_state.get(node_id), block):
                yield f"{owner} {block.type}: node {node_id} is not in group {block.numa_affinity}"


def _shares(node: NodeState, other: NodeState | None) -> bool:
    return other is not None and other.cells == node.cells


def _holds(node: NodeState | None, block: Block) -> bool:
    return node is not None and node.cells == block.numa_affinity
