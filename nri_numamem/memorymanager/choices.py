"""Which node sets a request may be placed on, without listing them all.

A set is admissible when its nodes could hold the request if empty, do hold it now, and no
assignment of another group lies on them. With at most one group per node there are few kinds of
admissible sets: single nodes, existing groups, and sets of two or more unassigned nodes. Only
the last kind is numerous; it stays a covering problem (``cover``) instead of a list, which is
why the number of nodes does not explode into 2^N sets.

Source: kubelet memorymanager, calculateHints; results equal its full enumeration.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from operator import attrgetter
from typing import TypeAlias

from nri_numamem.memorymanager.cover import NO_NODES, Cover
from nri_numamem.memorymanager.hint import Hint, Preferences
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.state import NO_TABLE, NodeState, Request, State, Table
from nri_numamem.values import once

Amount: TypeAlias = Callable[[Table], int]

ALLOCATABLE: Amount = attrgetter("allocatable")
FREE: Amount = attrgetter("free")


def crosses_groups(state: State, nodes: NodeSet) -> bool:
    """Tell whether an assignment on `nodes` would mix with assignments of another group.

    A node serves either single-node assignments or those of one group. Nodes that the machine
    does not have cannot serve at all.
    """
    is_alone = len(nodes) == 1
    for node_id in nodes:
        node = state.machine_state.get(node_id)
        if node is None:
            return True
        if len(node.cells) > 1 if is_alone else node.number_of_assignments and node.cells != nodes:
            return True
    return False


def free_bytes(state: State, nodes: Iterable[int], resource: str) -> int:
    """Return what is free of a resource on nodes; unknown ones have nothing."""
    free = 0
    for node_id in nodes:
        node = state.machine_state.get(node_id)
        if node is not None:
            free += node.memory_map.get(resource, NO_TABLE).free
    return free


def is_admissible(state: State, uid: str, request: Request, nodes: NodeSet) -> bool:
    """Tell whether the request of a pod's container may be placed on exactly these nodes.

    What the pod's containers gave back on exactly these nodes counts as free.
    """
    if crosses_groups(state, nodes):
        return False
    held = [state.machine_state[node_id].memory_map for node_id in nodes]
    for resource, size_bytes in request.items():
        allocatable = free = 0
        for tables in held:
            table = tables.get(resource, NO_TABLE)
            allocatable += table.allocatable
            free += table.free
        if allocatable < size_bytes:
            return False
        if free < size_bytes and free + state.reusable_bytes(uid, nodes, resource) < size_bytes:
            return False
    return True


class Choices:
    """The admissible node sets of one request, worked out as far as somebody asks.

    `home` is tried as a set of its own.
    """

    def __init__(self, state: State, uid: str, request: Request, home: NodeSet) -> None:
        # Not the state itself, which keeps these choices: only the collector would free the two.
        self._machine = state.machine_state
        self._assignments = state.assignments
        self._reusable = state.reusable
        self._uid = uid
        self._request = request
        self._home = home
        self._known: list[tuple[Preferences, NodeSet, NodeSet | None]] = []

    def are_for(self, uid: str, request: Request, home: NodeSet) -> bool:
        """Tell whether this was asked for."""
        return uid == self._uid and home == self._home and request == self._request

    @once
    def minimum(self) -> int | None:
        """The fewest nodes that could hold the request if empty; None when all cannot."""
        return self._cover(self._machine, ALLOCATABLE).smallest()

    @property
    def listed(self) -> tuple[NodeSet, ...]:
        """Admissible single nodes, groups, and sets on which the pod holds something to reuse."""
        return (*self._singles(NO_NODES), *self._of_several)

    @once
    def _state(self) -> State:
        return State(self._machine, self._assignments, self._reusable)

    @once
    def _of_several(self) -> tuple[NodeSet, ...]:
        """Those among `listed` that have more than one node."""
        return tuple(filter(self.admits, dict.fromkeys(self._sets_of_several())))

    def _sets_of_several(self) -> Iterator[NodeSet]:
        """Yield groups and the sets that the pod used; repetitions do not matter."""
        for node in self._machine.values():
            if node.cells.mask.bit_count() > 1:
                yield node.cells
        for name in self._reusable.get(self._uid, ()):
            for block in self._assignments[self._uid][name]:
                if len(block.numa_affinity) > 1:
                    yield block.numa_affinity
        if len(self._home) > 1:
            yield self._home

    @once
    def unassigned(self) -> Cover:
        """Any two or more of these nodes that cover are admissible too."""
        machine = self._machine.items()
        unassigned = {n: node for n, node in machine if not node.number_of_assignments}
        return self._cover(unassigned, FREE)

    def hint(self, nodes: NodeSet) -> Hint:
        """Return the hint for an admissible set."""
        size = len(nodes)
        return Hint(nodes, preferred=size == 1 or size == self.minimum)

    def best(self, preferences: Preferences, within: NodeSet = NO_NODES) -> NodeSet | None:
        """Return the admissible set that ranks first; None when there is none.

        The nodes in `within` belong to it. No admissible set is smaller than a preferred one, so
        preferred sets win. Source: kubelet memorymanager, findBestHint.
        """
        for asked, nodes, answer in self._known:
            if asked is preferences and nodes == within:
                return answer
        answer = self._best_single(preferences, within)
        if answer is None:
            answer = self._search(preferences, within)
            self._known.append((preferences, within, answer))
        return answer

    def _best_single(self, preferences: Preferences, within: NodeSet) -> NodeSet | None:
        """Return the single node that ranks first: most requests fit one, and this is quick."""
        home = preferences.home
        if home.mask.bit_count() == 1 and within.issubset(home) and self.admits(home):
            return home
        singles = self._singles(within)
        if preferences.tells_apart_singles:
            return min(singles, key=preferences.rank, default=None)
        return next(singles, None)

    def _singles(self, within: NodeSet) -> Iterator[NodeSet]:
        """Yield the admissible single nodes that `within` is part of, the lowest id first."""
        needed = tuple(self._request.items())
        reuses = self._uid in self._reusable
        for node_id, node in self._machine.items():
            # What is_admissible() asks, without a set of each node: most requests end here.
            tables = node.memory_map
            for resource, size_bytes in needed:
                table = tables.get(resource, NO_TABLE)
                if (table.free < size_bytes and not reuses) or table.allocatable < size_bytes:
                    break
            else:
                cells, mask = node.cells, 1 << node_id
                nodes = cells if cells.mask == mask else NodeSet.from_mask(mask)
                admits = self.admits(nodes) if reuses else cells.mask.bit_count() < 2
                if admits and within.issubset(nodes):
                    yield nodes

    def _search(self, preferences: Preferences, within: NodeSet) -> NodeSet | None:
        """Return the set of two or more nodes that ranks first."""
        found = [nodes for nodes in self._of_several if within.issubset(nodes)]
        unassigned = self.unassigned
        fewest = min(map(len, found), default=len(unassigned.amounts))
        if not within or within.issubset(unassigned.nodes):
            size = unassigned.smallest(max(2, len(within)), within)
            if size is not None and size <= fewest:
                found.append(unassigned.best(size, preferences, within))
        return min(found, key=preferences.rank) if len(found) > 1 else next(iter(found), None)

    def admits(self, nodes: NodeSet) -> bool:
        """Tell whether the request may be placed on exactly these nodes."""
        return is_admissible(self._state, self._uid, self._request, nodes)

    def _cover(self, nodes: Mapping[int, NodeState], amount: Amount) -> Cover:
        needed = {name: size_bytes for name, size_bytes in self._request.items() if size_bytes > 0}
        maps = [node.memory_map for node in nodes.values()]
        columns = [map(amount, [tables.get(name, NO_TABLE) for tables in maps]) for name in needed]
        held = zip(*columns, strict=True) if columns else repeat(())
        return Cover(dict(zip(nodes, held, strict=False)), tuple(needed.values()))


def choices_for(state: State, uid: str, request: Request, home: NodeSet) -> Choices:
    """Find the admissible sets for a container of pod `uid`; `home` is tried by itself.

    An admission asks several times about the same books: for hints, placement, and a refusal.
    """
    known: Choices | None = state.derived.get(Choices)
    if known is not None and known.are_for(uid, request, home):
        return known
    choices = state.derived[Choices] = Choices(state, uid, request, home)
    return choices
