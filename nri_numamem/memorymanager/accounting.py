"""Every change of the accounting: assign, reuse, release, remove, adopt.

Each function takes a ``State`` and returns the next one; unchanged parts are shared between the
two. No function here chooses nodes (``policy_static`` does) or rejects anything.

A container that has ended, and every ordinary init container, is *reusable*: it keeps its blocks,
and so its nodes, until its pod's next containers on the same nodes reuse the bytes, block by
block. So the charged bytes are always the sums over the blocks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from nri_numamem.memorymanager.blocks import (
    add_blocks,
    even_parts,
    release_charges,
    remove_blocks,
    shortfall_of,
)
from nri_numamem.memorymanager.candidates import free_bytes
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.state import Block, NodeState, Request, State, copy_of
from nri_numamem.numa.idset import NodeSet

_NO_LIMIT: Mapping[int, int] = {}


def assign(
    state: State,
    uid: str,
    name: HolderName,
    nodes: NodeSet,
    request: Request,
    *,
    is_even: bool = False,
    uses_free_first: bool = False,
) -> State:
    """Assign a container blocks on `nodes`; reusable bytes of its pod there are reused first.

    If `uses_free_first`, they are reused only for what is not free. If `is_even`, each node gets an
    equal part, as far as it has room. Bytes for which the nodes have no room stay uncharged;
    callers that need all bytes charged check before. Raises ValueError if the container is assigned
    already. Source: kubelet memorymanager, Allocate and updateMachineState: the lowest node is
    filled first.
    """
    containers = dict(state.assignments.get(uid, {}))
    if name in containers:
        raise ValueError(f"container {name} of pod {uid} is assigned already")
    reused: dict[str, dict[int, int]] = {}
    if uid in state.reusable:
        for resource, wanted in request.items():
            most = even_parts(nodes, resource, wanted) if is_even else dict.fromkeys(nodes, wanted)
            free = {n: free_bytes(state, (n,), resource) for n in nodes} if uses_free_first else {}
            left = max(0, wanted - sum(free.values()))
            if is_even and left:
                most = {n: max(0, part - free.get(n, 0)) for n, part in most.items()}
                left = sum(most.values())
            reused[resource] = _reuse_blocks(state, uid, containers, nodes, resource, left, most)
    machine = dict(state.machine_state)
    containers[name] = add_blocks(machine, nodes, request, reused, is_even=is_even)
    return _with_containers(state, machine, uid, containers)


def assign_exactly(
    state: State, uid: str, name: HolderName, charges: Mapping[str, Mapping[int, int]]
) -> State:
    """Assign a holder blocks with these charges: resource -> node id -> bytes, > 0.

    All blocks lie on all of the nodes. Raises ValueError if the holder is assigned already, and
    AccountingError for bytes that are not free.
    """
    if name in state.assignments.get(uid, {}):
        raise ValueError(f"{name} of {uid} is assigned already")
    machine = dict(state.machine_state)
    for resource, by_node in charges.items():
        for node_id, size_bytes in by_node.items():
            node = machine[node_id]
            table = node.table(resource).charge(size_bytes)
            machine[node_id] = node.with_tables({**node.memory_map, resource: table})
    nodes = NodeSet(chain.from_iterable(charges.values()))
    request = {resource: sum(by_node.values()) for resource, by_node in charges.items()}
    charged = {resource: dict(by_node) for resource, by_node in charges.items()}
    blocks = add_blocks(machine, nodes, request, charged)
    return _with_containers(state, machine, uid, {**state.assignments.get(uid, {}), name: blocks})


def _with_containers(
    state: State,
    machine: Mapping[int, NodeState],
    uid: str,
    containers: Mapping[HolderName, tuple[Block, ...]],
) -> State:
    assignments = copy_of(state.assignments)
    assignments[uid] = containers
    return State(machine, assignments, state.reusable)


def _reuse_blocks(
    state: State,
    uid: str,
    containers: dict[HolderName, tuple[Block, ...]],
    nodes: NodeSet,
    resource: str,
    wanted: int,
    most: dict[int, int],
) -> dict[int, int]:
    """Remove up to `wanted` bytes from the pod's reusable blocks; return node id -> bytes.

    `containers` are all containers of the pod; the blocks in it are replaced. `most` limits the
    bytes by node id; what is removed is subtracted from it.
    """
    reused: dict[int, int] = {}
    for name in state.reusable.get(uid, ()):
        blocks = list(containers[name])
        for index, block in enumerate(blocks):
            if block.numa_affinity == nodes and block.type == resource:
                blocks[index], removed = _shrink(block, wanted, most)
                wanted -= sum(removed.values())
                for node_id, size_bytes in removed.items():
                    most[node_id] -= size_bytes
                    reused[node_id] = reused.get(node_id, 0) + size_bytes
        containers[name] = tuple(blocks)
    return reused


def _shrink(
    block: Block, wanted: int, most: Mapping[int, int] = _NO_LIMIT
) -> tuple[Block, dict[int, int]]:
    """Return the block without up to `wanted` bytes, and node id -> removed bytes.

    `most` limits the removed bytes of the nodes in it.
    """
    removed: dict[int, int] = {}
    charges: list[tuple[int, int]] = []
    for node_id, size_bytes in block.charges:
        removed_bytes = min(wanted, size_bytes, most.get(node_id, size_bytes))
        wanted -= removed_bytes
        if removed_bytes:
            removed[node_id] = removed_bytes
        if removed_bytes < size_bytes:
            charges.append((node_id, size_bytes - removed_bytes))
    size = block.size - sum(removed.values())
    return replace(block, size=size, charges=tuple(charges)), removed


def mark_reusable(state: State, uid: str, name: HolderName) -> State:
    """Let the pod's next containers reuse the blocks of a container, which keeps its nodes.

    Nothing changes if the container is not assigned, or reusable already. Source: kubelet
    memorymanager, updatePodReusableMemory.
    """
    names = state.reusable.get(uid, ())
    if state.blocks(uid, name) is None or name in names:
        return state
    reusable = copy_of(state.reusable)
    reusable[uid] = (*names, name)
    return State(state.machine_state, state.assignments, reusable)


def unmark_reusable(state: State, uid: str, name: HolderName) -> State:
    """Undo mark_reusable() for a container that runs again on its nodes."""
    return State(state.machine_state, state.assignments, _reusable_without(state, uid, {name}))


def _reusable_without(
    state: State, uid: str, removed: Collection[HolderName]
) -> Mapping[str, tuple[HolderName, ...]]:
    names = state.reusable.get(uid, ())
    kept = tuple(name for name in names if name not in removed)
    if len(kept) == len(names):
        return state.reusable
    others = {other: held for other, held in state.reusable.items() if other != uid}
    return {**others, uid: kept} if kept else others


def release_reusable(state: State, uid: str, most: Request) -> State:
    """Release up to `most` bytes per resource of a pod's reusable blocks, the oldest first.

    The blocks become smaller, perhaps empty; their containers stay reusable on their nodes.
    """
    machine = dict(state.machine_state)
    containers = dict(state.assignments.get(uid, {}))
    remaining = dict(most)
    for name in state.reusable.get(uid, ()):
        blocks: list[Block] = []
        for block in containers[name]:
            size_bytes = min(remaining.get(block.type, 0), block.size)
            if size_bytes > 0:
                remaining[block.type] -= size_bytes
                block = _release_bytes(machine, block, size_bytes)  # noqa: PLW2901
            blocks.append(block)
        containers[name] = tuple(blocks)
    assignments = copy_of(state.assignments)
    assignments[uid] = containers
    return State(machine, assignments, state.reusable)


def _release_bytes(machine: dict[int, NodeState], block: Block, size_bytes: int) -> Block:
    """Return a block with less bytes; the uncharged ones are removed first."""
    uncharged = min(size_bytes, block.size - block.charged)
    block, removed = _shrink(replace(block, size=block.size - uncharged), size_bytes - uncharged)
    release_charges(machine, block.type, removed.items())
    return block


def remove_container(state: State, uid: str, name: HolderName) -> State:
    """Remove a container's assignment; nothing changes if it is not assigned.

    A node without blocks is in no group any more. Source: kubelet memorymanager, RemoveContainer.
    """
    return remove_containers(state, uid, (name,))


def remove_containers(state: State, uid: str, names: Collection[HolderName]) -> State:
    """Remove the assignments of some containers of a pod, in one pass over the pod."""
    assigned = state.assignments.get(uid, {})
    removed = {name: assigned[name] for name in names if name in assigned}
    if not removed:
        return state
    assignments, machine = copy_of(state.assignments), dict(state.machine_state)
    assignments[uid] = {name: held for name, held in assigned.items() if name not in removed}
    if not assignments[uid]:
        del assignments[uid]
    blocks = tuple(chain.from_iterable(removed.values()))
    remove_blocks(machine, blocks)
    return State(machine, assignments, _reusable_without(state, uid, removed))


def rename_container(state: State, uid: str, name: HolderName, new_name: HolderName) -> State:
    """Give the assignment of a container another name; nothing changes if it is not assigned.

    Raises ValueError if a container of that name is assigned already.
    """
    containers = state.assignments.get(uid, {})
    if name not in containers:
        return state
    if new_name in containers:
        raise ValueError(f"container {new_name} of pod {uid} is assigned already")
    assignments = copy_of(state.assignments)
    assignments[uid] = {new_name if n == name else n: held for n, held in containers.items()}
    reusable = state.reusable
    if name in reusable.get(uid, ()):
        names = (new_name if n == name else n for n in reusable[uid])
        reusable = {**reusable, uid: tuple(names)}
    return State(state.machine_state, assignments, reusable)


def remove_pod(state: State, uid: str) -> State:
    """Remove the assignments of all containers of a pod."""
    return remove_containers(state, uid, state.assignments.get(uid, ()))


@dataclass(frozen=True, slots=True)
class Adoption:
    """The result of adopting a running container."""

    state: State
    shortfall: Mapping[str, int] = field(default_factory=dict)
    """Resource name -> bytes, > 0, for which its nodes had no room."""


def adopt(
    state: State,
    uid: str,
    name: HolderName,
    nodes: NodeSet,
    request: Request,
    *,
    is_even: bool = False,
) -> Adoption:
    """Record a container that runs on `nodes`, even if the rules would not allow it.

    Free bytes are charged, and the shortfall is reported; removing the container restores the
    state. ``charge_shortfalls`` charges it when there is room. An existing assignment of the
    container is removed first. If `is_even`, each node is charged an equal part first.
    """
    state = remove_container(state, uid, name)
    machine = dict(state.machine_state)
    blocks = add_blocks(machine, nodes, request, is_even=is_even)
    after = _with_containers(state, machine, uid, {**state.assignments.get(uid, {}), name: blocks})
    return Adoption(after, shortfall_of(blocks))


def adopt_again(state: State, uid: str, name: HolderName, blocks: tuple[Block, ...]) -> State:
    """Record a container on the nodes of its former blocks; there is at least one."""
    resources = {block.type: block.size for block in blocks}
    first = blocks[0]
    return adopt(state, uid, name, first.numa_affinity, resources, is_even=first.is_even).state
