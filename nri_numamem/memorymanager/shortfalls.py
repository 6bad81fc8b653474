"""Shortfalls: bytes of blocks that are not charged, because their nodes had no room.

A running container is recorded even on full nodes: it was adopted there, it was resized with
RunUnpinned, or the machine lost memory. ``charge_shortfalls`` charges such bytes as soon as there
is room, so that nothing else is placed there. Where node sets overlap, charges of other blocks move
within their own nodes to make room. Afterwards the charges are a maximum flow from the blocks to
their nodes. The value of a maximum flow is unique: what is free in a group depends only on the
machine and the blocks, not on the order of events. Without overlaps, it is the allocatable amount
less the amounts of the blocks, at least 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.state import Block, NodeState, State, copy_of
from nri_numamem.numa.idset import NodeSet

_Place: TypeAlias = tuple[str, HolderName, int]
"""Owner, holder's name, index of the block."""

_Move: TypeAlias = tuple[NodeSet, int, int]
"""A node set whose blocks move bytes, the node that these leave, and the node that they go to."""


def has_shortfall(blocks: tuple[Block, ...]) -> bool:
    """Return whether a block has bytes that are not charged."""
    return not all(block.is_backed for block in blocks)


def charge_shortfalls(state: State) -> State:
    """Return the state with all shortfalls charged for which there is room; `state` if none is.

    Blocks whose charges are unknown do not change.
    """
    flows = {resource: _Flow(state, resource) for resource in _short_resources(state)}
    changed = {place: flow for flow in flows.values() for place in flow.run()}
    if not changed:
        return state
    assignments = copy_of(state.assignments)
    for (uid, name, index), flow in changed.items():
        blocks = list(assignments[uid][name])
        charges = flow.charges[uid, name, index].items()
        charged = tuple(sorted((node, size) for node, size in charges if size))
        blocks[index] = replace(blocks[index], charges=charged)
        assignments[uid] = {**assignments[uid], name: tuple(blocks)}
    machine = {n: _with_free(node, n, flows) for n, node in state.machine_state.items()}
    return State(machine, assignments, state.reusable)


def _short_resources(state: State) -> list[str]:
    found = {
        block.type
        for containers in state.assignments.values()
        for blocks in containers.values()
        for block in blocks
        if not block.is_backed
    }
    return sorted(found)


def _with_free(node: NodeState, node_id: int, flows: Mapping[str, "_Flow"]) -> NodeState:
    tables = dict(node.memory_map)
    for resource, flow in flows.items():
        if resource in tables:
            table = tables[resource]
            tables[resource] = table.charge(table.free - flow.free[node_id])
    return node.with_tables(tables)


class _Flow:
    """The charges of one resource, which change in place.

    The search is over sets of nodes, not over blocks: there are few sets.
    """

    def __init__(self, state: State, resource: str) -> None:
        self.free = {
            node_id: node.memory_map[resource].free
            for node_id, node in state.machine_state.items()
            if resource in node.memory_map
        }
        """Node id -> bytes."""
        self.charges: dict[_Place, dict[int, int]] = {}
        """Block -> node id -> bytes."""
        self._missing: dict[_Place, int] = {}
        """Block -> bytes that are not charged."""
        self._blocks: dict[NodeSet, list[_Place]] = {}
        """Nodes with the resource -> the blocks on them."""
        self._sums: dict[NodeSet, dict[int, int]] = {}
        """The same -> node id -> bytes charged to it for these blocks."""
        for place, block in sorted(_blocks_of(state, resource)):
            nodes = NodeSet(n for n in block.numa_affinity if n in self.free)
            self.charges[place] = dict(block.charges)
            self._missing[place] = block.size - block.charged
            self._blocks.setdefault(nodes, []).append(place)
            sums = self._sums.setdefault(nodes, {})
            for node_id, size_bytes in block.charges:
                sums[node_id] = sums.get(node_id, 0) + size_bytes

    def run(self) -> set[_Place]:
        """Charge all shortfalls for which there is room; return the blocks that changed."""
        changed: set[_Place] = set()
        for nodes, places in self._blocks.items():
            missing = sum(self._missing[place] for place in places)
            while missing and (found := self._path(nodes)) is not None:
                first, last, moves = found
                amounts = [self._sums[other][source] for other, source, _ in moves]
                size_bytes = min(missing, self.free[last], *amounts)
                for move in moves:
                    changed |= self._move(move, size_bytes)
                changed |= self._charge(nodes, first, size_bytes)
                self.free[last] -= size_bytes
                missing -= size_bytes
        return changed

    def _path(self, nodes: NodeSet) -> tuple[int, int, list[_Move]] | None:
        """Return one of the nodes, a node with free bytes, and the moves between; or None.

        The moves make room on the first node, and end on the last one. The search is by breadth.
        """
        came: dict[int, _Move | None] = dict.fromkeys(nodes)
        queue = list(came)
        for node_id in queue:
            if self.free[node_id] > 0:
                return _traced(came, node_id)
            for other, sums in self._sums.items():
                for target in other if sums.get(node_id) else ():
                    if target not in came:
                        came[target] = (other, node_id, target)
                        queue.append(target)
        return None

    def _move(self, move: _Move, size_bytes: int) -> set[_Place]:
        """Move bytes of a set's blocks from one node to another; return the blocks."""
        nodes, source, target = move
        changed: set[_Place] = set()
        for place in self._blocks[nodes]:
            moved = min(size_bytes, self.charges[place].get(source, 0))
            if moved:
                self._add(place, nodes, source, -moved)
                self._add(place, nodes, target, moved)
                changed.add(place)
                size_bytes -= moved
        return changed

    def _charge(self, nodes: NodeSet, node_id: int, size_bytes: int) -> set[_Place]:
        """Charge bytes that a set's blocks lack to a node; return the blocks."""
        changed: set[_Place] = set()
        for place in self._blocks[nodes]:
            charged = min(size_bytes, self._missing[place])
            if charged:
                self._add(place, nodes, node_id, charged)
                self._missing[place] -= charged
                changed.add(place)
                size_bytes -= charged
        return changed

    def _add(self, place: _Place, nodes: NodeSet, node_id: int, size_bytes: int) -> None:
        for sums in (self.charges[place], self._sums[nodes]):
            sums[node_id] = sums.get(node_id, 0) + size_bytes


def _blocks_of(state: State, resource: str) -> Iterator[tuple[_Place, Block]]:
    for uid, containers in state.assignments.items():
        for name, blocks in containers.items():
            for index, block in enumerate(blocks):
                if block.type == resource and block.are_charges_known:
                    yield (uid, name, index), block


def _traced(came: Mapping[int, _Move | None], last: int) -> tuple[int, int, list[_Move]]:
    moves: list[_Move] = []
    node_id = last
    while (move := came[node_id]) is not None:
        moves.append(move)
        node_id = move[1]
    return node_id, last, moves
