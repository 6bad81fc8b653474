"""Even groups: a container with equal parts of its request on a requested number of nodes.

A process with the memory policy `interleave` takes pages from its nodes in turn. So each node needs
room for an equal part, and the bytes are charged to the nodes in equal parts. The number of nodes
is requested: such a container is on several nodes even if it fits one.

An even group is a group like any other: its nodes are unassigned before, or are an existing group
of exactly this number of nodes. Of several the closest wins, as in ``candidates``. The kubelet has
no even groups (Kubernetes issue 119851).
"""

from nri_numamem.memorymanager.blocks import largest_part
from nri_numamem.memorymanager.candidates import crosses_groups
from nri_numamem.memorymanager.state import Request, State, has_normal_memory
from nri_numamem.numa.closest.cover import NO_NODES, Cover
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences
from nri_numamem.numa.quantity import sum_amounts


def parts_of(request: Request, count: int) -> dict[str, int]:
    """Return resource -> the bytes for which each of `count` nodes needs room."""
    return {name: largest_part(name, size_bytes, count) for name, size_bytes in request.items()}


def fits_evenly(state: State, uid: str, request: Request, nodes: NodeSet) -> bool:
    """Return whether each of these nodes has room for an equal part, and the rules allow the group.

    The pod's reusable bytes on exactly these nodes count as free. There is at least one node.
    """
    if crosses_groups(state, nodes) or not has_normal_memory(state, nodes):
        return False
    reusable = _reusable_bytes(state, uid, nodes)
    parts = parts_of(request, len(nodes))
    return all(_has_room(state, node_id, parts, reusable) for node_id in nodes)


def best_even_group(
    state: State,
    uid: str,
    request: Request,
    count: int,
    preferences: Preferences,
    fixed: NodeSet = NO_NODES,
    within: NodeSet | None = None,
) -> NodeSet | None:
    """Return the group of `count` nodes that ranks first; None if there is none.

    The nodes in `fixed` belong to it, and `within` has all of its nodes if it is given.
    """
    machine = state.machine_state
    allowed = NodeSet(machine) if within is None else within & NodeSet(machine)
    parts = parts_of(request, count)
    unassigned = [n for n in allowed if not machine[n].number_of_assignments]
    with_room = [n for n in unassigned if _has_room(state, n, parts, {})]
    # The one dimension: at least one node of the set has normal memory.
    cover = Cover({n: (int(not machine[n].lacks_normal_memory),) for n in with_room}, (1,))
    groups = dict.fromkeys(node.cells for node in machine.values() if len(node.cells) == count)
    found = [
        nodes
        for nodes in groups
        if fixed.issubset(nodes)
        and nodes.issubset(allowed)
        and fits_evenly(state, uid, request, nodes)
    ]
    if fixed.issubset(cover.nodes) and cover.smallest_size(count, fixed) == count:
        found.append(cover.best(count, preferences, fixed))
    return min(found, key=preferences.rank, default=None)


def _has_room(
    state: State, node_id: int, parts: Request, reusable: dict[tuple[int, str], int]
) -> bool:
    node = state.machine_state[node_id]
    return all(
        node.table(resource).allocatable >= part
        and node.table(resource).free + reusable.get((node_id, resource), 0) >= part
        for resource, part in parts.items()
    )


def _reusable_bytes(state: State, uid: str, nodes: NodeSet) -> dict[tuple[int, str], int]:
    """Return (node id, resource) -> charged bytes of the pod's reusable blocks on these nodes."""
    return sum_amounts(
        ((node_id, block.type), size_bytes)
        for name in state.reusable.get(uid, ())
        for block in state.assignments[uid][name]
        if block.numa_affinity == nodes
        for node_id, size_bytes in block.charges
    )
