"""The memory manager's state as immutable values, named as in the kubelet's state file.

Per NUMA node and resource a ``Table`` counts bytes; per container, ``Block`` values count how many
bytes of a resource it has on which nodes. ``State`` holds all of them. ``accounting`` changes a
state; this module has the values, the state of a machine without assignments, and the import of
a state that another program wrote.

The kubelet does not record one thing: the bytes of a block per node (`charges`). With them, the
release of a block restores the tables exactly, whatever happened in between.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.machine import Machine, NumaNode
from nri_numamem.numa.quantity import MEMORY, hugepages_page_size, hugepages_resource

_K = TypeVar("_K")
_V = TypeVar("_V")

Reserved: TypeAlias = Mapping[int, Mapping[str, int]]
"""Node id -> resource name -> bytes that pods may not use."""

Request: TypeAlias = Mapping[str, int]
"""Resource name (`memory`, `hugepages-2Mi`) -> bytes; 0 is allowed and makes an empty block."""


class AccountingError(Exception):
    """An operation would break the sums of the accounting; this is a bug of the program."""


@dataclass(frozen=True, slots=True)
class Table:
    """The five numbers of one resource on one node, in bytes."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int

    def charge(self, size_bytes: int) -> "Table":
        """Return the table with bytes moved from free to reserved; a negative number releases.

        Raises AccountingError for more bytes than are free, or than are reserved.
        """
        reserved, free = self.reserved + size_bytes, self.free - size_bytes
        if free < 0 or reserved < 0:
            raise AccountingError(f"cannot charge {size_bytes} bytes to {self}")
        return Table(self.total, self.system_reserved, self.allocatable, reserved, free)


NO_TABLE = Table(0, 0, 0, 0, 0)
"""Table of a resource that a node does not have (the kubelet would crash)."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """One NUMA node in the accounting."""

    number_of_assignments: int
    """How many blocks lie on the node, empty ones included."""
    memory_map: Mapping[str, Table]
    cells: NodeSet
    """The group that the node's assignments share; only the node itself if it has none."""
    spans: Mapping[NodeSet, int] = field(default_factory=dict, compare=False)
    """Node set -> number of the listed blocks on this node that lie on exactly that set."""
    lacks_normal_memory: bool = False
    """Whether the node cannot be the only node of a container, see ``has_normal_memory``."""

    def table(self, resource: str) -> Table:
        """Return the table of a resource; zeros if the node does not have it."""
        return self.memory_map.get(resource, NO_TABLE)

    # Not replace(), which takes three times as long.

    def with_tables(self, tables: Mapping[str, Table]) -> "NodeState":
        """Return the node with other tables."""
        count, flag = self.number_of_assignments, self.lacks_normal_memory
        return NodeState(count, tables, self.cells, self.spans, flag)

    def with_blocks(self, count: int, cells: NodeSet, spans: Mapping[NodeSet, int]) -> "NodeState":
        """Return the node with another number of blocks on it."""
        return NodeState(count, self.memory_map, cells, spans, self.lacks_normal_memory)


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of one resource that a container has on a node set."""

    numa_affinity: NodeSet
    type: str
    size: int
    """Requested bytes, less those that later containers of the pod reuse."""
    charges: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    """(node id, bytes > 0), ascending: the bytes charged to each node. Their sum is `size`, or less
    for a container whose nodes lack room (``shortfalls``)."""
    are_charges_known: bool = field(default=True, compare=False)
    """False for a block that another program wrote: its charges were derived from the tables."""
    is_even: bool = field(default=False, compare=False)
    """Whether each node is charged an equal part, see ``even_groups``."""

    @property
    def charged(self) -> int:
        """Bytes of the block that are charged to nodes."""
        return sum(size_bytes for _, size_bytes in self.charges)

    @property
    def is_backed(self) -> bool:
        """Whether all bytes are charged, or the charges are unknown."""
        return self.charged == self.size or not self.are_charges_known


Assignments: TypeAlias = Mapping[str, Mapping[HolderName, tuple[Block, ...]]]
"""Owner (a pod's uid) -> name of the holder -> blocks, see ``holder``."""


@dataclass(frozen=True, slots=True)
class State:
    """The whole accounting. Operations return a new state and leave the old one unchanged."""

    machine_state: Mapping[int, NodeState]
    """Node id, ascending -> node."""
    assignments: Assignments = field(default_factory=dict)
    reusable: Mapping[str, tuple[HolderName, ...]] = field(default_factory=dict)
    """Owner -> names of its holders whose blocks its next containers may reuse.

    The kubelet stores amounts instead: the sums of these containers' blocks.
    """
    derived: dict[Hashable, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Cache of values that are computed from this state; empty in a new state."""

    def blocks(self, uid: str, name: HolderName) -> tuple[Block, ...] | None:
        """Return a container's blocks; None if it is not assigned, () if it requests nothing."""
        return self.assignments.get(uid, {}).get(name)

    def reusable_bytes(self, uid: str, nodes: NodeSet, resource: str) -> int:
        """Return the bytes that a pod's next container may reuse on exactly these nodes."""
        return sum(
            block.charged
            for name in self.reusable.get(uid, ())
            for block in self.assignments[uid][name]
            if block.numa_affinity == nodes and block.type == resource
        )


def without_nodes(state: State, nodes: NodeSet) -> State:
    """Return the state as if the machine did not have some nodes; all assignments remain."""
    if not nodes:
        return state
    machine = {n: node for n, node in state.machine_state.items() if n not in nodes}
    return State(machine, state.assignments, state.reusable)


def views(state: State, last_resort: NodeSet) -> Iterator[State]:
    """Yield the states in which to look for nodes, one after the other.

    The first one lacks the last-resort nodes. Its assignments are those of the whole state, so a
    group that has a last-resort node is not a candidate there. The last one is `state` itself.
    """
    if last_resort:
        yield without_nodes(state, last_resort)
    yield state


def copy_of(mapping: Mapping[_K, _V]) -> dict[_K, _V]:
    """Return a copy that the caller may change.

    dict.copy() copies the hash table in one piece. dict() and {**mapping} insert each key anew if
    some keys were deleted before, which takes 20 µs for 500 keys instead of 1.
    """
    return mapping.copy() if isinstance(mapping, dict) else dict(mapping)


def default_state(machine: Machine, reserved: Reserved) -> State:
    """Return the state of a machine without assignments.

    If reservation and hugepages exceed a node's memory, nothing is allocatable on it (the
    kubelet's unsigned arithmetic wraps around to an enormous number). Source: kubelet
    memorymanager, getDefaultMachineState.
    """
    lacking = _nodes_without_normal_memory(machine)
    return State(
        {
            node.node_id: _default_node(
                node, reserved.get(node.node_id, {}), lacks_normal_memory=node.node_id in lacking
            )
            for node in machine.nodes
        }
    )


def _nodes_without_normal_memory(machine: Machine) -> NodeSet:
    """Return the nodes without normal memory; none if that excludes every node or no movable one.

    Nodes without any memory count only beside movable memory.
    """
    movable = NodeSet(node.node_id for node in machine.nodes if node.is_movable_only)
    empty = NodeSet(node.node_id for node in machine.nodes if node.memory_bytes == 0)
    return movable | empty if movable and movable | empty != machine.node_set else NodeSet()


def has_normal_memory(state: State, nodes: Iterable[int]) -> bool:
    """Return whether a container can start on these nodes, which the machine must have.

    The kernel cannot allocate memory for itself in ZONE_MOVABLE. A task whose `cpuset.mems` has no
    other memory gets ENOMEM when it starts, and older kernels invoke the OOM killer. Source: kernel
    mm/page_alloc.c, cpusets_insane_config (5.16 and newer).
    """
    return not all(state.machine_state[node_id].lacks_normal_memory for node_id in nodes)


def _default_node(
    node: NumaNode, reserved: Mapping[str, int], *, lacks_normal_memory: bool
) -> NodeState:
    tables: dict[str, Table] = {}
    for page_size_bytes, pages in sorted(node.hugepages.items()):
        name = hugepages_resource(page_size_bytes)
        total = pages * page_size_bytes
        tables[name] = _default_table(total, reserved.get(name, 0), hugepages_bytes=0)
    pools = sum(table.total for table in tables.values())
    memory = _default_table(node.memory_bytes, reserved.get(MEMORY, 0), hugepages_bytes=pools)
    own = NodeSet([node.node_id])
    return NodeState(0, {MEMORY: memory, **tables}, own, lacks_normal_memory=lacks_normal_memory)


def _default_table(total: int, system_reserved: int, *, hugepages_bytes: int) -> Table:
    allocatable = max(0, total - system_reserved - hugepages_bytes)
    return Table(total, system_reserved, allocatable, reserved=0, free=allocatable)


def state_as_written(machine_state: Mapping[int, NodeState], assignments: Assignments) -> State:
    """Return the state that another program wrote (the kubelet, a scenario), without changes.

    Such a state has no charges. The nodes' reserved bytes are attributed to the blocks in the
    order of the assignments, lowest node first, as far as they suffice.
    """
    unattributed = {
        (node_id, resource): table.reserved
        for node_id, node in machine_state.items()
        for resource, table in node.memory_map.items()
    }
    attributed = {
        uid: {
            name: tuple(_attribute(block, unattributed) for block in blocks)
            for name, blocks in containers.items()
        }
        for uid, containers in assignments.items()
    }
    spans = spans_of(attributed)
    machine = {
        node_id: replace(node, spans=spans.get(node_id, {}))
        for node_id, node in sorted(machine_state.items())
    }
    return State(machine, attributed)


def spans_of(assignments: Assignments) -> dict[int, dict[NodeSet, int]]:
    """Return node id -> node set -> number of blocks on the node that lie on exactly that set."""
    spans: dict[int, dict[NodeSet, int]] = {}
    for containers in assignments.values():
        for blocks in containers.values():
            for block in blocks:
                for node_id in block.numa_affinity:
                    on_node = spans.setdefault(node_id, {})
                    on_node[block.numa_affinity] = on_node.get(block.numa_affinity, 0) + 1
    return spans


def present_resources(state: State) -> list[str]:
    """Return `memory` and the kinds of hugepages that the machine has, by page size."""
    found = {
        name
        for node in state.machine_state.values()
        for name, table in node.memory_map.items()
        if name != MEMORY and table.total
    }
    return [MEMORY, *sorted(found, key=hugepages_page_size)]


def _attribute(block: Block, unattributed: dict[tuple[int, str], int]) -> Block:
    """Return the block with charges, which are subtracted from `unattributed`.

    `unattributed` maps (node id, resource) to reserved bytes.
    """
    charges: list[tuple[int, int]] = []
    missing = block.size
    for node_id in block.numa_affinity:
        size_bytes = min(missing, unattributed.get((node_id, block.type), 0))
        if size_bytes > 0:
            unattributed[node_id, block.type] -= size_bytes
            missing -= size_bytes
            charges.append((node_id, size_bytes))
    return replace(block, charges=tuple(charges), are_charges_known=False)
