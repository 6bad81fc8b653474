"""Invariants of the accounting, which hold after every operation.

``check_accounting`` verifies sums, charges, counts and groups. It holds for every state that this
package made, except while hugepages are masked. It is fit for production: the number of
violations that it returns is limited, and 500 pods take some milliseconds. ``check_shortfalls``
verifies that what is free does not depend on the order of events; it holds after each event.
``check_groups`` holds as long as no running container was adopted across groups, which is the only
way to mix groups.
The kubelet has no charges; otherwise the same rules hold for its state.
"""

from collections.abc import Iterator
from itertools import chain, islice

from nri_numamem.memorymanager.blocks import known_nodes
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.shortfalls import charge_shortfalls
from nri_numamem.memorymanager.state import Block, NodeState, State, Table, spans_of
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import MEMORY, sum_amounts

MAX_VIOLATIONS = 20


def check_accounting(state: State) -> tuple[str, ...]:
    """Return one line per violation, at most MAX_VIOLATIONS; none if the accounting is right."""
    violations = chain(
        _wrong_tables(state), _wrong_blocks(state), _wrong_reusable(state), _wrong_counts(state)
    )
    return tuple(islice(violations, MAX_VIOLATIONS))


def check_shortfalls(state: State) -> tuple[str, ...]:
    """Return one line for each block that lacks charges although there is room for them."""
    charged = charge_shortfalls(state)
    if charged is state:
        return ()
    violations = (
        f"{uid}/{name} {block.type}: {more.charged - block.charged} bytes are not charged to "
        f"nodes {block.numa_affinity}, although there is room"
        for (uid, name, block), (_, _, more) in zip(_blocks(state), _blocks(charged), strict=True)
        if more.charged > block.charged
    )
    return tuple(islice(violations, MAX_VIOLATIONS))


def check_groups(state: State) -> tuple[str, ...]:
    """Return one line for each node whose group differs from that of its members or blocks."""
    return tuple(islice(_wrong_groups(state), MAX_VIOLATIONS))


def _blocks(state: State) -> Iterator[tuple[str, HolderName, Block]]:
    """Yield owner, holder's name and block."""
    for uid, containers in state.assignments.items():
        for name, blocks in containers.items():
            for block in blocks:
                yield uid, name, block


def _wrong_tables(state: State) -> Iterator[str]:
    charged = sum_amounts(
        ((node_id, block.type), size_bytes)
        for _, _, block in _blocks(state)
        for node_id, size_bytes in block.charges
    )
    for node_id, node in state.machine_state.items():
        pools = sum(table.total for name, table in node.memory_map.items() if name != MEMORY)
        for name, table in node.memory_map.items():
            where = f"node {node_id} {name}"
            yield from _wrong_table(where, table, pools if name == MEMORY else 0)
            charged_bytes = charged.pop((node_id, name), 0)
            if table.reserved != charged_bytes:
                yield f"{where}: reserved {table.reserved}, but the blocks' charges {charged_bytes}"
    for node_id, name in charged:
        yield f"node {node_id} {name}: blocks have charges on a table that does not exist"


def _wrong_table(where: str, table: Table, hugepages_bytes: int) -> Iterator[str]:
    if min(table.free, table.reserved) < 0:
        yield f"{where}: free {table.free} or reserved {table.reserved} is negative"
    if table.free + table.reserved != table.allocatable:
        yield f"{where}: free and reserved do not add up to allocatable"
    if table.allocatable != max(0, table.total - table.system_reserved - hugepages_bytes):
        yield f"{where}: allocatable {table.allocatable} does not follow from the total"


def _wrong_blocks(state: State) -> Iterator[str]:
    for uid, name, block in _blocks(state):
        owner = f"{uid}/{name} {block.type}"
        if block.charged > block.size:
            yield f"{owner}: {block.charged} bytes charged, but the size is {block.size}"
        node_ids = [node_id for node_id, _ in block.charges]
        if node_ids != sorted(set(node_ids)) or any(size <= 0 for _, size in block.charges):
            yield f"{owner}: charges {block.charges} are not ascending and positive"
        if not all(map(block.numa_affinity.__contains__, node_ids)):
            yield f"{owner}: charges on nodes outside {block.numa_affinity}"
    for uid, containers in state.assignments.items():
        for name, blocks in containers.items():
            if any(block.numa_affinity != blocks[0].numa_affinity for block in blocks[1:]):
                yield f"{uid}/{name}: blocks are on different node sets"


def _wrong_reusable(state: State) -> Iterator[str]:
    for uid, names in state.reusable.items():
        for name in names:
            if state.blocks(uid, name) is None:
                yield f"{uid}/{name}: reusable, but not assigned"
        if len(set(names)) < len(names) or not names:
            yield f"{uid}: reusable containers {names} are missing or repeated"


def _wrong_counts(state: State) -> Iterator[str]:
    spans = spans_of(state.assignments)
    for node_id, node in state.machine_state.items():
        on_node = spans.get(node_id, {})
        count = sum(on_node.values())
        if node.number_of_assignments != count:
            yield f"node {node_id}: {node.number_of_assignments} assignments, but {count} blocks"
        if node.spans != on_node:
            yield f"node {node_id}: the counts per node set differ from the blocks"
        group = NodeSet() if on_node else NodeSet([node_id])
        for nodes in on_node:
            group |= known_nodes(state.machine_state, nodes)
        if node.cells != group:
            yield f"node {node_id}: group {node.cells}, but its blocks are on {group}"


def _wrong_groups(state: State) -> Iterator[str]:
    for node_id, node in state.machine_state.items():
        if node_id not in node.cells:
            yield f"node {node_id}: not in its own group {node.cells}"
        elif not node.number_of_assignments and len(node.cells) > 1:
            yield f"node {node_id}: in group {node.cells} without an assignment"
        for other_id in node.cells:
            if not _has_group(state.machine_state.get(other_id), node.cells):
                yield f"nodes {node_id} and {other_id}: one group, two descriptions"
    for uid, name, block in _blocks(state):
        group = known_nodes(state.machine_state, block.numa_affinity)
        for node_id in group:
            if not _has_group(state.machine_state.get(node_id), group):
                owner = f"{uid}/{name} {block.type}"
                yield f"{owner}: node {node_id} is not in group {block.numa_affinity}"


def _has_group(node: NodeState | None, group: NodeSet) -> bool:
    return node is not None and node.cells == group
