"""Every change to the books: assign, take over, give back, remove, adopt.

Each function takes a ``State`` and returns the next one; what did not change is shared between
the two. Nothing here chooses nodes (``static`` does) or refuses anything.

A container that gave back (it ended, or it is an ordinary init container) keeps its blocks, and
with them its place, until its pod's next containers on the same nodes take the bytes over, block
by block. So the bytes on the books are always the sums of the blocks.
"""

from collections.abc import Mapping
from dataclasses import field, replace

from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.quantity import MEMORY
from nri_numamem.memorymanager.state import Block, NodeState, Request, State, copy_of
from nri_numamem.values import valueclass


def resource_order(resource: str) -> tuple[bool, str]:
    """Sort `memory` first, then hugepages by name: the one order of resources everywhere."""
    return (resource != MEMORY, resource)


def assign(state: State, uid: str, name: str, nodes: NodeSet, request: Request) -> State:
    """Give a container its blocks on `nodes`, taking over what its pod's containers gave back.

    The container must not be assigned yet. Bytes that fit nowhere stay uncharged; callers that
    must not let this happen look first. Source: kubelet memorymanager, Allocate and
    updateMemoryBlocks: the lowest node fills up first.
    """
    machine = dict(state.machine_state)
    containers = dict(state.assignments.get(uid, {}))
    if name in containers:
        raise ValueError(f"container {name} of pod {uid} is assigned already")
    blocks: list[Block] = []
    for resource in sorted(request, key=resource_order):
        charges = _take_over(state, uid, containers, nodes, resource, request[resource])
        missing = request[resource] - sum(charges.values())
        for node_id in nodes:
            missing -= _charge(machine, charges, node_id, resource, missing)
        taken = tuple(sorted(charges.items()))
        blocks.append(Block(nodes, resource, request[resource], taken))
    _enter(machine, nodes, len(blocks))
    containers[name] = tuple(blocks)
    assignments = copy_of(state.assignments)
    assignments[uid] = containers
    return State(machine, assignments, state.reusable)


def _take_over(
    state: State,
    uid: str,
    containers: dict[str, tuple[Block, ...]],
    nodes: NodeSet,
    resource: str,
    wanted: int,
) -> dict[int, int]:
    """Move bytes out of blocks that were given back; returns node id -> bytes."""
    moved: dict[int, int] = {}
    for name in state.reusable.get(uid, ()):
        blocks = list(containers[name])
        for index, block in enumerate(blocks):
            if block.numa_affinity == nodes and block.type == resource:
                blocks[index], got = _shrink(block, wanted)
                wanted -= sum(got.values())
                for node_id, size_bytes in got.items():
                    moved[node_id] = moved.get(node_id, 0) + size_bytes
        containers[name] = tuple(blocks)
    return moved


def _shrink(block: Block, wanted: int) -> tuple[Block, dict[int, int]]:
    got: dict[int, int] = {}
    kept: list[tuple[int, int]] = []
    for node_id, size_bytes in block.charges:
        moved = min(wanted, size_bytes)
        wanted -= moved
        if moved:
            got[node_id] = moved
        if moved < size_bytes:
            kept.append((node_id, size_bytes - moved))
    size = block.size - sum(got.values())
    return replace(block, size=size, charges=tuple(kept)), got


def _charge(
    machine: dict[int, NodeState], charges: dict[int, int], node_id: int, resource: str, most: int
) -> int:
    """Take up to `most` free bytes of a node, which may be unknown; returns how many."""
    node = machine.get(node_id)
    size_bytes = 0 if node is None else min(most, node.table(resource).free)
    if node is None or size_bytes <= 0:
        return 0
    tables = {**node.memory_map, resource: node.memory_map[resource].take(size_bytes)}
    # Not replace(), here and below: it takes three times as long, and requests come in a row.
    machine[node_id] = NodeState(node.number_of_assignments, tables, node.cells, node.spans)
    charges[node_id] = charges.get(node_id, 0) + size_bytes
    return size_bytes


def _enter(machine: dict[int, NodeState], nodes: NodeSet, blocks: int) -> None:
    """Count blocks on every node of their set, which becomes (part of) the nodes' group."""
    for node_id in nodes:
        node = machine.get(node_id)
        if node is not None and blocks:
            count = node.number_of_assignments
            cells = node.cells | nodes if count else nodes
            spans = {**node.spans, nodes: node.spans.get(nodes, 0) + blocks}
            machine[node_id] = NodeState(count + blocks, node.memory_map, cells, spans)


def give_back(state: State, uid: str, name: str) -> State:
    """Let the pod's next containers take over what a container held; it keeps its place.

    Nothing happens when it is not assigned, or has given back already.
    """
    names = state.reusable.get(uid, ())
    if state.blocks(uid, name) is None or name in names:
        return state
    reusable = copy_of(state.reusable)
    reusable[uid] = (*names, name)
    return State(state.machine_state, state.assignments, reusable)


def take_back(state: State, uid: str, name: str) -> State:
    """Undo give_back() for a container that runs again in its old place."""
    return State(state.machine_state, state.assignments, _reusable_without(state, uid, name))


def _reusable_without(state: State, uid: str, name: str) -> Mapping[str, tuple[str, ...]]:
    names = state.reusable.get(uid, ())
    if name not in names:
        return state.reusable
    reusable = copy_of(state.reusable)
    reusable[uid] = tuple(other for other in names if other != name)
    if not reusable[uid]:
        del reusable[uid]
    return reusable


def drop_reusable_of_others(state: State, uid: str) -> State:
    """Forget what other pods' containers gave back; their blocks stay as they are.

    The kubelet does so before each allocation, since it handles one pod at a time. Source:
    kubelet memorymanager, updateInitContainersMemoryBlocks.
    """
    kept = state.reusable.get(uid)
    return replace(state, reusable={} if kept is None else {uid: kept})


def remove_container(state: State, uid: str, name: str) -> State:
    """Take a container off the books; nothing happens when it is not assigned.

    A node that loses its last block leaves its group. Source: kubelet memorymanager,
    RemoveContainer.
    """
    blocks = state.blocks(uid, name)
    if blocks is None:
        return state
    containers = {other: held for other, held in state.assignments[uid].items() if other != name}
    assignments = copy_of(state.assignments)
    if containers:
        assignments[uid] = containers
    else:
        del assignments[uid]
    machine = dict(state.machine_state)
    _release(machine, blocks)
    _regroup(machine, blocks)
    return State(machine, assignments, _reusable_without(state, uid, name))


def remove_pod(state: State, uid: str) -> State:
    """Take all containers of a pod off the books."""
    for name in state.assignments.get(uid, {}):
        state = remove_container(state, uid, name)
    return state


def _release(machine: dict[int, NodeState], blocks: tuple[Block, ...]) -> None:
    for block in blocks:
        for node_id, size_bytes in block.charges:
            node = machine[node_id]
            table = node.memory_map[block.type].take(-size_bytes)
            tables = {**node.memory_map, block.type: table}
            count = node.number_of_assignments
            machine[node_id] = NodeState(count, tables, node.cells, node.spans)
        for node_id in block.numa_affinity:
            if node_id in machine:
                machine[node_id] = _leave(machine[node_id], block.numa_affinity)


def _leave(node: NodeState, nodes: NodeSet) -> NodeState:
    """Count a block on `nodes` off a node."""
    spans = {span: number for span, number in node.spans.items() if span != nodes}
    left = node.spans.get(nodes, 0) - 1
    if left > 0:
        spans[nodes] = left
    # Books that somebody else wrote may count less than they list.
    count = max(0, node.number_of_assignments - 1)
    return NodeState(count, node.memory_map, node.cells, spans)


def _regroup(machine: dict[int, NodeState], removed: tuple[Block, ...]) -> None:
    """Set the groups of the nodes that lost blocks: what the blocks left there span, or alone.

    All blocks on a node span the same set, unless a running container was adopted across groups.
    Where books that somebody else wrote count blocks that they do not list, the group stays.
    """
    touched = NodeSet()
    for block in removed:
        touched |= block.numa_affinity
    for node_id in touched:
        node = machine.get(node_id)
        if node is not None:
            spanned = NodeSet()
            for span in node.spans:
                spanned |= span
            alone = NodeSet([node_id])
            count = node.number_of_assignments
            cells = (spanned or node.cells) if count else alone
            machine[node_id] = NodeState(count, node.memory_map, cells, node.spans)


@valueclass(frozen=True, slots=True)
class Adoption:
    """What became of a running container that was put on the books."""

    state: State
    shortfall: Mapping[str, int] = field(default_factory=dict)
    """Resource name -> bytes, > 0, for which its nodes had no room on the books."""
    unknown_nodes: NodeSet = field(default_factory=NodeSet)
    """Nodes of its set that the machine does not have."""
    joined: NodeSet = field(default_factory=NodeSet)
    """Nodes of its set that serve assignments of another group; their groups now overlap."""


def adopt(state: State, uid: str, name: str, nodes: NodeSet, request: Request) -> Adoption:
    """Put a container that runs on `nodes` on the books as it is, whatever the rules say.

    What is free is charged, the rest is reported; removing the container restores the books.
    A container that is assigned already is removed first. Where sets overlap, adopt the narrow
    ones first: a wide one takes from its lowest node what a narrow one has nowhere else.
    """
    state = remove_container(state, uid, name)
    known = [node_id for node_id in nodes if node_id in state.machine_state]
    joined = [
        node_id
        for node_id in known
        if (node := state.machine_state[node_id]).number_of_assignments and node.cells != nodes
    ]
    apart = State(state.machine_state, state.assignments)
    after = assign(apart, uid, name, nodes, request)
    after = State(after.machine_state, after.assignments, state.reusable)
    blocks = after.assignments[uid][name]
    shortfall = {b.type: b.size - b.charged for b in blocks if b.size > b.charged}
    return Adoption(after, shortfall, nodes - NodeSet(known), NodeSet(joined))
