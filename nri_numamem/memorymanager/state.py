"""The books of the memory manager as immutable values, named as in the kubelet's state file.

Per NUMA node and resource a ``Table`` counts bytes; per container ``Block`` values say what it
holds where. ``State`` is all of it. Operations on the books live in ``books``; here are only
the values, the empty books of a machine, and the way in for books that somebody else wrote.

One thing the kubelet does not have: a block remembers how many bytes it took from which node
(`charges`), so that giving it back restores exactly what was taken, whatever happened between.
"""

from collections.abc import Hashable, Mapping
from dataclasses import field, replace
from typing import Any, TypeAlias, TypeVar

from nri_numamem.memorymanager.machine import Machine, NumaNode
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.quantity import MEMORY, hugepages_resource
from nri_numamem.values import valueclass

_K = TypeVar("_K")
_V = TypeVar("_V")

Reserved: TypeAlias = Mapping[int, Mapping[str, int]]
"""Node id -> resource name -> bytes that are not for pods."""

Request: TypeAlias = Mapping[str, int]
"""Resource name (`memory`, `hugepages-2Mi`) -> bytes; 0 is allowed and makes an empty block."""


@valueclass(frozen=True, slots=True)
class Table:
    """The five numbers of one resource on one node, in bytes."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int

    def take(self, size_bytes: int) -> "Table":
        """Return the table with bytes moved from free to reserved; negative gives them back."""
        reserved, free = self.reserved + size_bytes, self.free - size_bytes
        return Table(self.total, self.system_reserved, self.allocatable, reserved, free)


NO_TABLE = Table(0, 0, 0, 0, 0)
"""A resource that a node does not have counts as zeros (the kubelet would crash)."""


@valueclass(frozen=True, slots=True)
class NodeState:
    """One NUMA node on the books."""

    number_of_assignments: int
    """How many blocks lie on the node, empty ones included."""
    memory_map: Mapping[str, Table]
    cells: NodeSet
    """The group that the node's assignments share; the node alone when it has none."""
    spans: Mapping[NodeSet, int] = field(default_factory=dict, compare=False)
    """Set of nodes -> how many of the listed blocks on this node lie on exactly that set."""

    def table(self, resource: str) -> Table:
        """Return the table of a resource, zeros when the node does not have it."""
        return self.memory_map.get(resource, NO_TABLE)


@valueclass(frozen=True, slots=True)
class Block:
    """What a container holds of one resource."""

    numa_affinity: NodeSet
    type: str
    size: int
    """Bytes asked for, less what later containers of the pod took over."""
    charges: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    """(node id, bytes > 0), ascending: where the bytes were taken. Their sum is `size`, or less
    where a running container was adopted on nodes that were full."""

    @property
    def charged(self) -> int:
        """How many bytes of the block are on the books."""
        return sum(size_bytes for _, size_bytes in self.charges)


Assignments: TypeAlias = Mapping[str, Mapping[str, tuple[Block, ...]]]
"""Pod uid -> container name -> blocks."""


@valueclass(frozen=True, slots=True)
class State:
    """All books. Operations return a new value; old ones stay as they are."""

    machine_state: Mapping[int, NodeState]
    """Node id, ascending -> its books."""
    assignments: Assignments = field(default_factory=dict)
    reusable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pod uid -> names of its containers whose blocks its next containers may take over.

    The kubelet keeps amounts instead; they are the sums of these containers' blocks.
    """
    derived: dict[Hashable, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What was worked out from these books and is asked for again; a new state has none."""

    def blocks(self, uid: str, name: str) -> tuple[Block, ...] | None:
        """Return a container's blocks; None is "not assigned", () is "assigned, nothing"."""
        return self.assignments.get(uid, {}).get(name)

    def reusable_bytes(self, uid: str, nodes: NodeSet, resource: str) -> int:
        """Return what a pod's next container may take over on exactly these nodes."""
        return sum(
            block.charged
            for name in self.reusable.get(uid, ())
            for block in self.assignments[uid][name]
            if block.numa_affinity == nodes and block.type == resource
        )


def copy_of(mapping: Mapping[_K, _V]) -> dict[_K, _V]:
    """Return a copy to be changed.

    In one piece where that can be: dict() and {**mapping} enter each key anew once some were taken
    out, which takes 20 µs for 500 instead of 1.
    """
    return mapping.copy() if isinstance(mapping, dict) else dict(mapping)


def default_state(machine: Machine, reserved: Reserved) -> State:
    """Return the books of a machine on which nothing is assigned.

    Where reservation and hugepages are more than a node's memory, nothing is allocatable there
    (the kubelet's unsigned arithmetic would wrap to an enormous number). Source: kubelet
    memorymanager, getDefaultMachineState.
    """
    return State(
        {
            node.node_id: _default_node(node, reserved.get(node.node_id, {}))
            for node in machine.nodes
        }
    )


def _default_node(node: NumaNode, reserved: Mapping[str, int]) -> NodeState:
    tables: dict[str, Table] = {}
    for page_size_bytes, pages in sorted(node.hugepages.items()):
        name = hugepages_resource(page_size_bytes)
        total = pages * page_size_bytes
        tables[name] = _default_table(total, reserved.get(name, 0), taken=0)
    pools = sum(table.total for table in tables.values())
    memory = _default_table(node.memory_bytes, reserved.get(MEMORY, 0), taken=pools)
    return NodeState(0, {MEMORY: memory, **tables}, NodeSet([node.node_id]))


def _default_table(total: int, system_reserved: int, *, taken: int) -> Table:
    allocatable = max(0, total - system_reserved - taken)
    return Table(total, system_reserved, allocatable, reserved=0, free=allocatable)


def state_as_written(machine_state: Mapping[int, NodeState], assignments: Assignments) -> State:
    """Return books that somebody else wrote (the kubelet, a scenario), taken as they are.

    Where each block's bytes lie is not written there: the blocks are laid over the nodes' reserved
    bytes in the order of the assignments, lowest node first, as far as these reach.
    """
    left = {
        (node_id, resource): table.reserved
        for node_id, node in machine_state.items()
        for resource, table in node.memory_map.items()
    }
    laid = {
        uid: {
            name: tuple(_lay(block, left) for block in blocks)
            for name, blocks in containers.items()
        }
        for uid, containers in assignments.items()
    }
    spans = spans_of(laid)
    machine = {
        node_id: replace(node, spans=spans.get(node_id, {}))
        for node_id, node in sorted(machine_state.items())
    }
    return State(machine, laid)


def spans_of(assignments: Assignments) -> dict[int, dict[NodeSet, int]]:
    """Count, per node id and set of nodes, the blocks on the node that lie on exactly that set."""
    spans: dict[int, dict[NodeSet, int]] = {}
    for containers in assignments.values():
        for blocks in containers.values():
            for block in blocks:
                for node_id in block.numa_affinity:
                    on_node = spans.setdefault(node_id, {})
                    on_node[block.numa_affinity] = on_node.get(block.numa_affinity, 0) + 1
    return spans


def _lay(block: Block, left: dict[tuple[int, str], int]) -> Block:
    charges: list[tuple[int, int]] = []
    missing = block.size
    for node_id in block.numa_affinity:
        size_bytes = min(missing, left.get((node_id, block.type), 0))
        if size_bytes:
            left[node_id, block.type] -= size_bytes
            missing -= size_bytes
            charges.append((node_id, size_bytes))
    return replace(block, charges=tuple(charges))
