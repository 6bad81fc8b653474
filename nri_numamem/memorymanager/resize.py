"""A container on the books gets another amount of memory while it runs.

Less gives back. More is taken on the nodes that the container has: what is free there, then what
its pod's ended containers gave back there. Where that is too little it gets more nodes, by the
rules of any other placement and never fewer than it has, because its pages are there. Where no
set is admissible either, it stays, and what the books cannot hold is reported: the caller may drop
the result, and refuse.

The kubelet has no such operation (it calls the resize infeasible under the policy Static); the
order of the choices is that of its issue 131360. Nothing here knows who asked for the resize.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from nri_numamem.memorymanager.books import assign, give_back, remove_container
from nri_numamem.memorymanager.choices import choices_for, free_bytes
from nri_numamem.memorymanager.hint import Hint, Preferences
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.quantity import MEMORY
from nri_numamem.memorymanager.state import Block, Request, State
from nri_numamem.values import valueclass


@valueclass(frozen=True, slots=True)
class Resized:
    """What became of a container whose memory changed."""

    state: State
    nodes: NodeSet
    """Those for `cpuset.mems`; the old ones or a superset of them."""
    shortfall: Mapping[str, int] = field(default_factory=dict)
    """Resource name -> bytes, > 0, for which its nodes have no room on the books."""


def resize(
    state: State,
    uid: str,
    name: str,
    size_bytes: int,
    preferences: Preferences,
    admits: Callable[[Hint], bool] = lambda _: True,
) -> Resized:
    """Change a container's memory to `size_bytes`; ValueError when it holds nothing.

    `admits` is the Topology Manager's word on a wider set; its nodes as they are need none. The
    container's other resources stay as they are.
    """
    blocks = state.blocks(uid, name)
    if not blocks:
        raise ValueError(f"container {name} of pod {uid} holds nothing that could be resized")
    nodes = blocks[0].numa_affinity
    request = {block.type: block.size for block in blocks} | {MEMORY: size_bytes}
    rest = remove_container(state, uid, name)
    free = free_bytes(rest, nodes, MEMORY)
    if size_bytes <= free:
        # What the pod's ended containers left is for their successors as long as there is more.
        apart = assign(replace(rest, reusable={}), uid, name, nodes, request)
        return _resized(replace(apart, reusable=rest.reusable), uid, name)
    if size_bytes > free + rest.reusable_bytes(uid, nodes, MEMORY):
        wider = _widen(rest, uid, name, nodes, request, preferences, admits)
        if wider is not None:
            return _resized(wider, uid, name)
    return _resized(assign(rest, uid, name, nodes, request), uid, name)


def _resized(state: State, uid: str, name: str) -> Resized:
    blocks = state.assignments[uid][name]
    shortfall = {b.type: b.size - b.charged for b in blocks if b.size > b.charged}
    return Resized(state, blocks[0].numa_affinity, shortfall)


def _widen(
    rest: State,
    uid: str,
    name: str,
    nodes: NodeSet,
    request: Request,
    preferences: Preferences,
    admits: Callable[[Hint], bool],
) -> State | None:
    """Place the container on the best superset of `nodes`; None when none is admissible.

    What its pod's ended containers hold on `nodes` would keep them a group of their own. It is no
    more than a promise to their successors, so it moves along, as far as there is room.
    """
    held = _given_back(rest, uid, nodes)
    for other in held:
        rest = remove_container(rest, uid, other)
    choices = choices_for(rest, uid, request, preferences.home)
    found = choices.best(preferences, nodes)
    if found is None or not admits(choices.hint(found)):
        return None
    state = assign(rest, uid, name, found, request)
    for other, blocks in held.items():
        left = {b.type: min(b.size, free_bytes(state, found, b.type)) for b in blocks}
        apart = assign(replace(state, reusable={}), uid, other, found, left)
        state = give_back(replace(apart, reusable=state.reusable), uid, other)
    return state


def _given_back(state: State, uid: str, nodes: NodeSet) -> dict[str, tuple[Block, ...]]:
    """Return what the pod's ended containers hold on exactly these nodes, by name."""
    containers = state.assignments.get(uid, {})
    return {
        name: containers[name]
        for name in state.reusable.get(uid, ())
        if any(block.numa_affinity == nodes for block in containers[name])
    }
