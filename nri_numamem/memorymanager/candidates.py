"""The candidates of a request: the node sets on which it may be placed, without listing them all.

A set is admissible if its nodes could hold the request when empty, hold it now, and have no
assignments of another group. Each node has at most one group, so there are few kinds of
admissible sets: single nodes, existing groups, and sets of two or more unassigned nodes. Only the
last kind is numerous. It remains a covering problem (``numa.closest.cover``) instead of a list,
which avoids the 2^N sets of a full enumeration.

Source: kubelet memorymanager, calculateHints; the results equal its full enumeration.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from typing import TypeAlias

from nri_numamem.memorymanager.state import (
    NO_TABLE,
    NodeState,
    Request,
    State,
    Table,
    has_normal_memory,
)
from nri_numamem.numa.closest.cover import NO_NODES, Cover
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences

Amount: TypeAlias = Callable[[Table], int]

ALLOCATABLE: Amount = attrgetter("allocatable")
FREE: Amount = attrgetter("free")


@dataclass(frozen=True, slots=True)
class Hint:
    """One topology hint, as in the kubelet's Topology Manager."""

    affinity: NodeSet | None
    """A node set on which the request fits; None is "any nodes"."""
    preferred: bool
    """Whether no smaller set could hold the request on an empty machine."""


def crosses_groups(state: State, nodes: NodeSet) -> bool:
    """Return whether an assignment on `nodes` would mix with assignments of another group.

    A node has either single-node assignments or those of one group. Also return True if the
    machine does not have all of the nodes. Source: kubelet memorymanager,
    isAffinityViolatingNUMAAllocations.
    """
    is_single = len(nodes) == 1
    for node_id in nodes:
        node = state.machine_state.get(node_id)
        if node is None:
            return True
        if len(node.cells) > 1 if is_single else node.number_of_assignments and node.cells != nodes:
            return True
    return False


def free_bytes(state: State, nodes: Iterable[int], resource: str) -> int:
    """Return the free bytes of a resource on nodes; nodes that do not exist have none."""
    free = 0
    for node_id in nodes:
        node = state.machine_state.get(node_id)
        if node is not None:
            free += node.memory_map.get(resource, NO_TABLE).free
    return free


def is_admissible(state: State, uid: str, request: Request, nodes: NodeSet) -> bool:
    """Return whether the request of a pod's container may be placed on exactly these nodes.

    The pod's reusable bytes on exactly these nodes count as free.
    """
    if crosses_groups(state, nodes) or not has_normal_memory(state, nodes):
        return False
    memory_maps = [state.machine_state[node_id].memory_map for node_id in nodes]
    for resource, size_bytes in request.items():
        allocatable = free = 0
        for tables in memory_maps:
            table = tables.get(resource, NO_TABLE)
            allocatable += table.allocatable
            free += table.free
        if allocatable < size_bytes:
            return False
        if free < size_bytes and free + state.reusable_bytes(uid, nodes, resource) < size_bytes:
            return False
    return True


class Candidates:
    """The admissible node sets of one request; each property is computed at its first use.

    The previous nodes are tried as a set of their own.
    """

    def __init__(self, state: State, uid: str, request: Request, previous_nodes: NodeSet) -> None:
        # Not the state itself, which refers to this object: reference counting could free neither.
        self._machine = state.machine_state
        self._assignments = state.assignments
        self._reusable = state.reusable
        self._uid = uid
        self._request = request
        self._previous_nodes = previous_nodes
        self._found: list[tuple[Preferences, NodeSet, NodeSet | None]] = []

    def are_for(self, uid: str, request: Request, previous_nodes: NodeSet) -> bool:
        """Return whether these are the candidates of this request."""
        return (
            uid == self._uid and previous_nodes == self._previous_nodes and request == self._request
        )

    @cached_property
    def minimum(self) -> int | None:
        """The fewest nodes that could hold the request if empty; None if all nodes could not."""
        return self._cover(self._machine, ALLOCATABLE).smallest_size()

    @property
    def listed(self) -> tuple[NodeSet, ...]:
        """Admissible single nodes, groups, sets with reusable blocks, and the previous nodes."""
        return (*self._singles(NO_NODES), *self._of_several)

    @cached_property
    def _state(self) -> State:
        return State(self._machine, self._assignments, self._reusable)

    @cached_property
    def _of_several(self) -> tuple[NodeSet, ...]:
        """The sets in `listed` that have more than one node."""
        return tuple(filter(self.admits, dict.fromkeys(self._sets_of_several())))

    def _sets_of_several(self) -> Iterator[NodeSet]:
        """Yield groups and the sets that the pod used, possibly more than once."""
        for node in self._machine.values():
            if node.cells.mask.bit_count() > 1:
                yield node.cells
        for name in self._reusable.get(self._uid, ()):
            for block in self._assignments[self._uid][name]:
                if len(block.numa_affinity) > 1:
                    yield block.numa_affinity
        if len(self._previous_nodes) > 1:
            yield self._previous_nodes

    @cached_property
    def unassigned(self) -> Cover:
        """The unassigned nodes: any two or more of them that cover the request are admissible."""
        machine = self._machine.items()
        unassigned = {n: node for n, node in machine if not node.number_of_assignments}
        return self._cover(unassigned, FREE)

    def hint(self, nodes: NodeSet) -> Hint:
        """Return the hint for an admissible set."""
        size = nodes.mask.bit_count()
        return Hint(nodes, preferred=size == 1 or size == self.minimum)

    def best(self, preferences: Preferences, fixed: NodeSet = NO_NODES) -> NodeSet | None:
        """Return the admissible set that ranks first; None if there is none.

        The nodes in `fixed` belong to it. No admissible set is smaller than a preferred one, so
        preferred sets win. Source: kubelet memorymanager, getDefaultHint, findBestHint, and with
        fixed nodes extendTopologyManagerHint.
        """
        for known, nodes, found in self._found:
            if known is preferences and nodes == fixed:
                return found
        best = self._best_single(preferences, fixed)
        if best is None:
            best = self._best_of_several(preferences, fixed)
            self._found.append((preferences, fixed, best))
        return best

    def _best_single(self, preferences: Preferences, fixed: NodeSet) -> NodeSet | None:
        """Return the single node that ranks first: most requests fit one, and this is fast."""
        previous_nodes = preferences.previous_nodes
        if (
            previous_nodes.mask.bit_count() == 1
            and fixed.issubset(previous_nodes)
            and self.admits(previous_nodes)
        ):
            return previous_nodes
        singles = self._singles(fixed)
        if preferences.ranks_single_nodes:
            return min(singles, key=preferences.rank, default=None)
        return next(singles, None)

    def _singles(self, fixed: NodeSet) -> Iterator[NodeSet]:
        """Yield the admissible single nodes that contain `fixed`, the lowest id first."""
        needed = tuple(self._request.items())
        reuses = self._uid in self._reusable
        for node_id, node in self._machine.items():
            # The checks of is_admissible(), without a node set per node: most requests end here.
            if node.lacks_normal_memory:
                continue
            tables = node.memory_map
            for resource, size_bytes in needed:
                table = tables.get(resource, NO_TABLE)
                if (table.free < size_bytes and not reuses) or table.allocatable < size_bytes:
                    break
            else:
                cells, mask = node.cells, 1 << node_id
                nodes = cells if cells.mask == mask else NodeSet.from_mask(mask)
                admits = self.admits(nodes) if reuses else cells.mask.bit_count() < 2
                if admits and fixed.mask | mask == mask:
                    yield nodes

    def _best_of_several(self, preferences: Preferences, fixed: NodeSet) -> NodeSet | None:
        """Return the admissible set of two or more nodes that ranks first; None for none."""
        found = [nodes for nodes in self._of_several if fixed.issubset(nodes)]
        unassigned = self.unassigned
        fewest = min(map(len, found), default=len(unassigned.amounts))
        if not fixed or fixed.issubset(unassigned.nodes):
            size = unassigned.smallest_size(max(2, len(fixed)), fixed)
            if size is not None and size <= fewest:
                found.append(unassigned.best(size, preferences, fixed))
        return min(found, key=preferences.rank) if len(found) > 1 else next(iter(found), None)

    def admits(self, nodes: NodeSet) -> bool:
        """Return whether the request may be placed on exactly these nodes."""
        return is_admissible(self._state, self._uid, self._request, nodes)

    def _cover(self, nodes: Mapping[int, NodeState], amount: Amount) -> Cover:
        needed = {name: size_bytes for name, size_bytes in self._request.items() if size_bytes > 0}
        maps = [node.memory_map for node in nodes.values()]
        columns = [map(amount, [tables.get(name, NO_TABLE) for tables in maps]) for name in needed]
        need = tuple(needed.values())
        if any(node.lacks_normal_memory for node in self._machine.values()):
            # One more dimension: at least one node of the set has normal memory.
            columns.append(map(int, [not node.lacks_normal_memory for node in nodes.values()]))
            need = (*need, 1)
        held = zip(*columns, strict=True) if columns else repeat(())
        return Cover(dict(zip(nodes, held, strict=False)), need)


def candidates_for(state: State, uid: str, request: Request, previous_nodes: NodeSet) -> Candidates:
    """Return the candidates for a container of pod `uid`.

    An admission uses the candidates of one state several times (for hints, placement and a
    rejection), so the state keeps those of the last request.
    """
    known: Candidates | None = state.derived.get(Candidates)
    if known is not None and known.are_for(uid, request, previous_nodes):
        return known
    candidates = state.derived[Candidates] = Candidates(state, uid, request, previous_nodes)
    return candidates
