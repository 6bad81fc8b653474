"""Blocks on nodes: charge the bytes of a request, make the nodes a group, and undo both.

This is the one part of the accounting that changes a mapping in place. Its callers own the mapping:
``accounting`` copies a state's nodes for one container, and the engine for thousands of running
containers.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from nri_numamem.memorymanager.state import (
    NO_TABLE,
    AccountingError,
    Block,
    NodeState,
    Request,
    Table,
)
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import MEMORY, hugepages_page_size

PAGE_BYTES = 4096
"""The unit of equal parts of memory; hugepages are divided by whole pages."""

_NOTHING_REUSED: Mapping[str, dict[int, int]] = {}


def resource_order(resource: str) -> tuple[bool, str]:
    """Sort `memory` first, then hugepages by name: the one order of resources everywhere."""
    return (resource != MEMORY, resource)


def page_bytes(resource: str) -> int:
    """Return the unit in which a resource is divided into equal parts."""
    return PAGE_BYTES if resource == MEMORY else hugepages_page_size(resource)


def even_parts(node_ids: Iterable[int], resource: str, size_bytes: int) -> dict[int, int]:
    """Return node id -> its part of `size_bytes`, in whole pages.

    The lowest nodes have a page more if the pages cannot be divided, and the next one the rest of
    a page. There is at least one node.
    """
    page = page_bytes(resource)
    pages, rest = divmod(size_bytes, page)
    ordered = sorted(node_ids)
    each, more = divmod(pages, len(ordered))
    return {
        node_id: (each + (index < more)) * page + (rest if index == more else 0)
        for index, node_id in enumerate(ordered)
    }


def largest_part(resource: str, size_bytes: int, count: int) -> int:
    """Return the most that one of `count` nodes may need: an equal part in whole pages.

    The kernel may begin to interleave on any of the nodes.
    """
    page = page_bytes(resource)
    return -(-size_bytes // (page * count)) * page


def add_blocks(
    machine: dict[int, NodeState],
    nodes: NodeSet,
    request: Request,
    reused: Mapping[str, dict[int, int]] = _NOTHING_REUSED,
    *,
    is_even: bool = False,
) -> tuple[Block, ...]:
    """Return new blocks on `nodes`; charge them to the nodes, count them, and make a group.

    `machine` is changed in place. The lowest node is filled first, as far as bytes are free; if
    `is_even`, each node gets an equal part first. `reused` are bytes that are charged already:
    resource -> node id -> bytes. A node that the machine does not have, such as an excluded one,
    has nothing free and is in no group. Raises AccountingError if more than the request is reused.
    """
    tables = {n: dict(machine[n].memory_map) for n in nodes if n in machine}
    blocks: list[Block] = []
    for resource in sorted(request, key=resource_order) if len(request) > 1 else request:
        charges = reused.get(resource, {})
        missing = request[resource] - sum(charges.values())
        if is_even and tables:
            missing -= _charge_parts(tables, resource, charges, request[resource])
        for node_id, of_node in tables.items():
            size_bytes = min(missing, of_node.get(resource, NO_TABLE).free)
            if size_bytes > 0:
                of_node[resource] = of_node[resource].charge(size_bytes)
                charges[node_id] = charges.get(node_id, 0) + size_bytes
                missing -= size_bytes
        if missing < 0:
            raise AccountingError(f"{-missing} bytes more than requested are charged to {nodes}")
        charged = tuple(sorted(charges.items()))
        blocks.append(Block(nodes, resource, request[resource], charged, is_even=is_even))
    group = nodes if len(tables) == len(nodes) else NodeSet(tables)
    for node_id in tables if blocks else ():
        machine[node_id] = _with_blocks(
            machine[node_id], tables[node_id], nodes, group, len(blocks)
        )
    return tuple(blocks)


def _charge_parts(
    tables: Mapping[int, dict[str, Table]], resource: str, charges: dict[int, int], size_bytes: int
) -> int:
    """Charge each node its part of `size_bytes`, as far as bytes are free; return the sum.

    `charges` are bytes that are charged already; they count, and the new ones are added.
    """
    sum_bytes = 0
    for node_id, part in even_parts(tables, resource, size_bytes).items():
        of_node = tables[node_id]
        missing = part - charges.get(node_id, 0)
        added = min(missing, of_node.get(resource, NO_TABLE).free)
        if added > 0:
            of_node[resource] = of_node[resource].charge(added)
            charges[node_id] = charges.get(node_id, 0) + added
            sum_bytes += added
    return sum_bytes


def _with_blocks(
    node: NodeState, tables: Mapping[str, Table], nodes: NodeSet, group: NodeSet, number: int
) -> NodeState:
    """Return a node of `group` with other tables, and a number of blocks on `nodes` more."""
    count = node.number_of_assignments
    cells = group if not count or node.cells == group else node.cells | group
    spans = {**node.spans, nodes: node.spans.get(nodes, 0) + number}
    return NodeState(count + number, tables, cells, spans, node.lacks_normal_memory)


def remove_blocks(machine: dict[int, NodeState], blocks: tuple[Block, ...]) -> None:
    """Free the bytes of blocks, no longer count them, and leave groups that nothing needs.

    `machine` is changed in place. The group of a node is then that of its remaining blocks. All
    blocks on a node lie on the same set, unless a running container was adopted across groups. If a
    state that another program wrote counts blocks that it does not list, the group is unchanged.
    Raises AccountingError if bytes are not charged to their nodes.
    """
    for block in blocks:
        release_charges(machine, block.type, block.charges)
        for node_id in block.numa_affinity:
            if node_id in machine:
                machine[node_id] = _without_block(machine[node_id], block.numa_affinity)
    for node_id in NodeSet(chain.from_iterable(block.numa_affinity for block in blocks)):
        node = machine.get(node_id)
        if node is not None:
            known = (known_nodes(machine, span) for span in node.spans)
            remaining = NodeSet(chain.from_iterable(known))
            count = node.number_of_assignments
            cells = (remaining or node.cells) if count else NodeSet([node_id])
            machine[node_id] = node.with_blocks(count, cells, node.spans)


def _without_block(node: NodeState, nodes: NodeSet) -> NodeState:
    """Return a node of `nodes` with one block on `nodes` less."""
    spans = {span: number for span, number in node.spans.items() if span != nodes}
    number = node.spans.get(nodes, 0) - 1
    if number > 0:
        spans[nodes] = number
    # A state that another program wrote may count fewer blocks than it lists.
    count = max(0, node.number_of_assignments - 1)
    return node.with_blocks(count, node.cells, spans)


def release_charges(
    machine: dict[int, NodeState], resource: str, freed: Iterable[tuple[int, int]]
) -> None:
    """Release bytes of nodes, (node id, bytes); AccountingError if they are not charged there."""
    for node_id, size_bytes in freed:
        if node_id not in machine or resource not in machine[node_id].memory_map:
            raise AccountingError(f"node {node_id} has no {resource} to release")
        node = machine[node_id]
        tables = {**node.memory_map, resource: node.memory_map[resource].charge(-size_bytes)}
        machine[node_id] = node.with_tables(tables)


def known_nodes(machine: Mapping[int, NodeState], nodes: NodeSet) -> NodeSet:
    """Return those of the nodes that the machine has."""
    if all(map(machine.__contains__, nodes)):
        return nodes
    return NodeSet(filter(machine.__contains__, nodes))


def sum_blocks(blocks: Iterable[Block]) -> dict[str, int]:
    """Return resource name -> bytes of some blocks."""
    sums: dict[str, int] = {}
    for block in blocks:
        sums[block.type] = sums.get(block.type, 0) + block.size
    return sums


def shortfall_of(blocks: Iterable[Block]) -> dict[str, int]:
    """Return resource name -> bytes, > 0, of adopted blocks that are not charged."""
    return {b.type: b.size - b.charged for b in blocks if b.size > b.charged}
