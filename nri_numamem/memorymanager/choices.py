"""Which node sets a request may be placed on, without listing them all.

A set is admissible when its nodes could hold the request if empty, do hold it now, and no
assignment of another group lies on them. With at most one group per node there are few kinds of
admissible sets: single nodes, existing groups, and sets of two or more unassigned nodes. Only
the last kind is numerous; it stays a covering problem (``cover``) instead of a list, which is
why the number of nodes does not explode into 2^N sets.

Source: kubelet memorymanager, calculateHints; results equal its full enumeration.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from nri_numamem.memorymanager.cover import NO_NODES, Cover
from nri_numamem.memorymanager.hint import Hint, Preferences
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.state import Request, State


def crosses_groups(state: State, nodes: NodeSet) -> bool:
    """Tell whether an assignment on `nodes` would mix with assignments of another group.

    A node serves either single-node assignments or those of one group. Nodes that the machine
    does not have cannot serve at all.
    """
    found = [state.machine_state.get(node_id) for node_id in nodes]
    if len(found) == 1 and found[0] is not None:
        return len(found[0].cells) > 1
    return any(
        node is None or (node.number_of_assignments > 0 and node.cells != nodes) for node in found
    )


def free_bytes(state: State, nodes: Iterable[int], resource: str) -> int:
    """Return what is free of a resource on nodes; unknown ones have nothing."""
    found = (state.machine_state.get(node_id) for node_id in nodes)
    return sum(node.table(resource).free for node in found if node is not None)


def is_admissible(state: State, uid: str, request: Request, nodes: NodeSet) -> bool:
    """Tell whether the request of a pod's container may be placed on exactly these nodes.

    What the pod's containers gave back on exactly these nodes counts as free.
    """
    if crosses_groups(state, nodes):
        return False
    members = [state.machine_state[node_id] for node_id in nodes]
    for resource, size_bytes in request.items():
        if sum(node.table(resource).allocatable for node in members) < size_bytes:
            return False
        free = sum(node.table(resource).free for node in members)
        if free + state.reusable_bytes(uid, nodes, resource) < size_bytes:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Choices:
    """The admissible node sets of one request."""

    minimum: int | None
    """The fewest nodes that could hold the request if empty; None when all together cannot."""
    listed: tuple[NodeSet, ...]
    """Admissible single nodes, groups, and sets on which the pod holds something to reuse."""
    unassigned: Cover
    """Any two or more of these nodes that cover are admissible too."""
    known: list[tuple[Preferences, NodeSet, NodeSet | None]] = field(
        default_factory=list, repr=False, compare=False
    )
    """What best() was asked already, and its answer."""

    def hint(self, nodes: NodeSet) -> Hint:
        """Return the hint for an admissible set."""
        return Hint(nodes, preferred=len(nodes) == self.minimum)

    def best(self, preferences: Preferences, within: NodeSet = NO_NODES) -> NodeSet | None:
        """Return the admissible set that ranks first; None when there is none.

        The nodes in `within` belong to it. No admissible set is smaller than a preferred one, so
        preferred sets win. Source: kubelet memorymanager, findBestHint.
        """
        for asked, nodes, answer in self.known:
            if asked is preferences and nodes == within:
                return answer
        answer = self._search(preferences, within)
        self.known.append((preferences, within, answer))
        return answer

    def _search(self, preferences: Preferences, within: NodeSet) -> NodeSet | None:
        found = [nodes for nodes in self.listed if within.issubset(nodes)]
        fewest = min(map(len, found), default=len(self.unassigned.amounts))
        if fewest > 1 and within.issubset(self.unassigned.nodes):
            size = self.unassigned.smallest(max(2, len(within)), within)
            if size is not None and size <= fewest:
                found.append(self.unassigned.best(size, preferences, within))
        return min(found, key=preferences.rank, default=None)


def choices_for(state: State, uid: str, request: Request, home: NodeSet) -> Choices:
    """Find the admissible sets for a container of pod `uid`; `home` is tried by itself.

    An admission asks several times about the same books: for hints, placement, and a refusal.
    """
    key = (uid, tuple(request.items()), home)
    if key not in state.derived:
        state.derived.clear()
        state.derived[key] = _find(state, uid, request, home)
    choices: Choices = state.derived[key]
    return choices


def _find(state: State, uid: str, request: Request, home: NodeSet) -> Choices:
    needed = {resource: size_bytes for resource, size_bytes in request.items() if size_bytes > 0}
    machine = state.machine_state
    need = tuple(needed.values())
    empty = Cover(
        {n: tuple(node.table(r).allocatable for r in needed) for n, node in machine.items()}, need
    )
    unassigned = Cover(
        {
            n: tuple(node.table(r).free for r in needed)
            for n, node in machine.items()
            if not node.number_of_assignments
        },
        need,
    )
    tried = dict.fromkeys(_sets_of_their_own(state, uid, home))
    listed = tuple(nodes for nodes in tried if is_admissible(state, uid, request, nodes))
    return Choices(empty.smallest(), listed, unassigned)


def _sets_of_their_own(state: State, uid: str, home: NodeSet) -> Iterable[NodeSet]:
    """Return single nodes, groups, and the sets that the pod used; repetitions do not matter."""
    for node_id, node in state.machine_state.items():
        yield NodeSet([node_id])
        yield node.cells
    for name in state.reusable.get(uid, ()):
        for block in state.assignments[uid][name]:
            yield block.numa_affinity
    if home:
        yield home
