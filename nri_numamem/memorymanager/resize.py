"""Resize: an assigned container gets another amount of memory while it runs.

Less memory frees bytes. More memory is charged to the container's nodes: first free bytes, then
reusable bytes of its pod there. If that is too little, the container gets more nodes, by the same
rules as any other placement. It never loses a node, because its pages may be there. If no larger
set is admissible either, it keeps its nodes, and the shortfall is reported: the caller may
discard the result and reject the resize. A container on an even group keeps equal parts as far as
its nodes have room; on more nodes it is charged as any other.

The kubelet has no such operation (with the policy Static, a resize is infeasible); the order of
these steps is that of Kubernetes issue 131360.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from nri_numamem.memorymanager.accounting import (
    assign,
    mark_reusable,
    remove_container,
    remove_containers,
)
from nri_numamem.memorymanager.blocks import sum_blocks
from nri_numamem.memorymanager.candidates import Hint, candidates_for, free_bytes
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.state import Block, Request, State, views
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences
from nri_numamem.numa.quantity import MEMORY, sum_mappings


@dataclass(frozen=True, slots=True)
class Resized:
    """The result of a resize."""

    state: State
    nodes: NodeSet
    """The nodes for `cpuset.mems`: the nodes before the resize, or a superset."""
    shortfall: Mapping[str, int] = field(default_factory=dict)
    """Resource name -> bytes, > 0, for which its nodes have no room."""


def resize_container(
    state: State,
    uid: str,
    name: HolderName,
    size_bytes: int,
    preferences: Preferences,
    admits: Callable[[Hint], bool] = lambda _: True,
) -> Resized:
    """Change a container's memory to `size_bytes`; ValueError if it has no blocks.

    `admits` is the topology manager's decision about a larger node set; the present nodes need
    none. The container's other resources do not change.
    """
    blocks = state.blocks(uid, name)
    if not blocks:
        raise ValueError(f"container {name} of pod {uid} has no blocks to resize")
    nodes = blocks[0].numa_affinity
    request = {block.type: block.size for block in blocks} | {MEMORY: size_bytes}
    without_it = remove_container(state, uid, name)
    room = free_bytes(without_it, nodes, MEMORY) + without_it.reusable_bytes(uid, nodes, MEMORY)
    if size_bytes > room:
        larger = _widen(without_it, uid, name, nodes, request, preferences, admits)
        if larger is not None:
            return _resized(larger, uid, name)
    is_even = blocks[0].is_even
    # Reusable bytes are for the pod's next containers, as long as others are free.
    assigned = assign(without_it, uid, name, nodes, request, is_even=is_even, uses_free_first=True)
    return _resized(assigned, uid, name)


def _resized(state: State, uid: str, name: HolderName) -> Resized:
    blocks = state.assignments[uid][name]
    shortfall = {b.type: b.size - b.charged for b in blocks if b.size > b.charged}
    return Resized(state, blocks[0].numa_affinity, shortfall)


def _widen(
    without_it: State,
    uid: str,
    name: HolderName,
    nodes: NodeSet,
    request: Request,
    preferences: Preferences,
    admits: Callable[[Hint], bool],
) -> State | None:
    """Place the container on the best superset of `nodes`; None if none is admissible.

    Reusable blocks on `nodes` would make `nodes` another group. No container runs in them, so
    they move to the new set as far as there is room.
    """
    reusable = _reusable_blocks(without_it, uid, nodes)
    without_it = remove_containers(without_it, uid, reusable)
    found = None
    for view in views(without_it, preferences.last_resort):
        candidates = candidates_for(view, uid, request, preferences.previous_nodes)
        found = candidates.best(preferences, nodes)
        if found is not None and admits(candidates.hint(found)):
            break
        found = None
    if found is None:
        return None
    state = assign(without_it, uid, name, found, request)
    for other, blocks in reusable.items():
        fitting = {b.type: min(b.size, free_bytes(state, found, b.type)) for b in blocks}
        moved = assign(replace(state, reusable={}), uid, other, found, fitting)
        state = mark_reusable(replace(moved, reusable=state.reusable), uid, other)
    return state


def _reusable_blocks(state: State, uid: str, nodes: NodeSet) -> dict[HolderName, tuple[Block, ...]]:
    """Return the blocks of the pod's reusable containers that have one on exactly these nodes."""
    containers = state.assignments.get(uid, {})
    return {
        name: containers[name]
        for name in state.reusable.get(uid, ())
        if any(block.numa_affinity == nodes for block in containers[name])
    }


def extend_containers(
    state: State,
    uid: str,
    nodes: NodeSet,
    more: Request,
    preferences: Preferences,
    admits: Callable[[Hint], bool] = lambda _: True,
) -> tuple[State, NodeSet] | None:
    """Give more nodes to all containers of a pod on `nodes`, so that `more` fits there as well.

    Also return the nodes: the best superset of `nodes` that holds all of it. None if none is
    admissible.
    """
    containers = state.assignments.get(uid, {})
    moving = {name: b for name, b in containers.items() if b and b[0].numa_affinity == nodes}
    sizes = sum_blocks(chain.from_iterable(moving.values()))
    request, reusable = sum_mappings((more, sizes)), state.reusable
    state = remove_containers(state, uid, moving)
    candidates = candidates_for(state, uid, request, preferences.previous_nodes)
    found = candidates.best(preferences, nodes)
    if found is None or not admits(candidates.hint(found)):
        return None
    state = replace(state, reusable={})
    for name, blocks in moving.items():
        state = assign(state, uid, name, found, {block.type: block.size for block in blocks})
    return replace(state, reusable=reusable), found
