"""The rebalancing plan: which pods must move to other NUMA nodes so that a refused request fits.

Nothing is moved: the plan is for people, who restart the pods that it names. Writing `cpuset.mems`
of a running container is synchronous and stalls the runtime, takes hugepages from the pools of one
node to another, and leaves pinned pages and page cache behind (docs/rebalancing.md).

The unit is a *share*: all containers of one pod that have the same single NUMA node. The plan has
the smallest sum of resident bytes, then of assigned ones, and at most `max_moves` shares. A plan is
admissible if the code that places containers admits the request in the changed accounting; this
module has no placement rules of its own.

The search takes sets of shares in the order of their bytes. It relies on one fact: a request that
is not admitted after some shares are removed is not admitted after they are moved, or after fewer
are removed. So it first tries without the shares of a set, and without all shares on its nodes.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nri_numamem.memorymanager.accounting import assign, remove_containers
from nri_numamem.memorymanager.blocks import sum_blocks
from nri_numamem.memorymanager.candidates import is_admissible
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.shortfalls import charge_shortfalls
from nri_numamem.memorymanager.state import Request, State
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import MEMORY

MAX_MOVES = 2
MAX_TRIALS = 10_000
"""Trial placements in one search; some seconds. A host with 110 pods needs about 6,000 to show that
there is no plan."""

Place: TypeAlias = Callable[[State], NodeSet | None]
"""Return the nodes of the refused request in an accounting; None if it is refused there too."""

View: TypeAlias = Callable[[State], State]
"""Return an accounting without what others cannot use, some nodes perhaps."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one pod has on one NUMA node; it moves as a whole."""

    uid: str
    node_id: int
    containers: tuple[str, ...]
    """Those that run, by name; at least one."""
    resident_bytes: int | None = None
    """Memory in use, page cache left out; None if unknown."""
    is_consented: bool = False
    obstacle: str = ""
    """Why it must not move: "it has hugepages"; "" if it may."""
    targets: NodeSet | None = None
    """The nodes to which it may move; None for all."""


@dataclass(frozen=True, slots=True)
class Move:
    """A share that moves to another node."""

    share: Share
    target: int
    """NUMA node id."""
    assigned_bytes: int
    """The memory that the accounting holds for the share."""

    @property
    def cost_bytes(self) -> int:
        """The resident bytes, or if they are unknown the assigned ones."""
        resident = self.share.resident_bytes
        return self.assigned_bytes if resident is None else resident


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """The result of a search: moves, or why there are none."""

    moves: tuple[Move, ...] = ()
    nodes: NodeSet = field(default_factory=NodeSet)
    """Where the request fits then, or fits now."""
    fits_now: bool = False
    blocking: tuple[Share, ...] = ()
    """Without moves: the shares that would have to move and must not."""
    is_complete: bool = True
    """Whether the search ended before MAX_TRIALS."""

    @property
    def cost_bytes(self) -> int:
        """The sum of the moves."""
        return sum(move.cost_bytes for move in self.moves)


def find_plan(
    accounting: State,
    shares: Iterable[Share],
    place: Place,
    *,
    last_resort: NodeSet | None = None,
    view: View = lambda accounting: accounting,
    max_moves: int = MAX_MOVES,
    max_trials: int = MAX_TRIALS,
) -> Rebalancing:
    """Return the cheapest plan for a request that `place` refuses; `max_moves` is at least 1.

    Plans of shares that consent come first, then those with others. `last_resort` nodes are targets
    only if there is no other. `view` returns what shares that move may use of an accounting. The
    same arguments give the same plan.
    """
    search = _Search(accounting, place, view, last_resort or NodeSet(), max_moves, max_trials)
    nodes = search.nodes_in(accounting)
    if nodes is not None:
        return Rebalancing(nodes=nodes, fits_now=True)
    every = [share for share in shares if share.node_id in accounting.machine_state]
    movable = [share for share in every if not share.obstacle]
    consenting = [share for share in movable if share.is_consented]
    try:
        plan = search.cheapest(consenting) or search.cheapest(movable)
    except _TrialsUsedUpError:
        return Rebalancing(is_complete=False)
    return plan or Rebalancing(blocking=_blocking(search, every))


def _blocking(search: "_Search", shares: Sequence[Share]) -> tuple[Share, ...]:
    """Return the shares with an obstacle of the cheapest plan that ignores obstacles."""
    try:
        plan = search.cheapest(shares)
    except _TrialsUsedUpError:
        return ()
    return () if plan is None else tuple(m.share for m in plan.moves if m.share.obstacle)


class _TrialsUsedUpError(Exception):
    """The search took too many trials."""


class _Search:
    """One request in one accounting."""

    def __init__(
        self,
        accounting: State,
        place: Place,
        view: View,
        last_resort: NodeSet,
        max_moves: int,
        max_trials: int,
    ) -> None:
        self._accounting = accounting
        self._place = place
        self._view = view
        self._max_moves = max_moves
        self._trials = max_trials
        ids = accounting.machine_state
        self._targets = sorted(ids, key=lambda node_id: (node_id in last_resort, node_id))
        self._without: dict[frozenset[Share], bool] = {}
        """Whether the request is admitted without these shares."""

    def nodes_in(self, accounting: State) -> NodeSet | None:
        """Place the request; raise _TrialsUsedUpError if that was tried too often."""
        if not self._trials:
            raise _TrialsUsedUpError
        self._trials -= 1
        return self._place(accounting)

    def cheapest(self, shares: Sequence[Share]) -> Rebalancing | None:
        """Return the cheapest plan that moves some of these shares."""
        assigned = {share: _resources(self._accounting, share) for share in shares}
        moves = [Move(share, share.node_id, assigned[share].get(MEMORY, 0)) for share in shares]
        moves.sort(key=lambda m: (m.cost_bytes, m.assigned_bytes, m.share.uid, m.share.node_id))
        ordered = [move.share for move in moves]
        if not ordered or not self._helps(ordered):
            return None
        on_node: dict[int, list[Share]] = {}
        for share in ordered:
            on_node.setdefault(share.node_id, []).append(share)
        for indices in _subsets([(m.cost_bytes, m.assigned_bytes) for m in moves], self._max_moves):
            chosen = [ordered[index] for index in indices]
            sources = {share.node_id for share in chosen}
            if not self._helps([share for node_id in sources for share in on_node[node_id]]):
                continue
            if not self._helps(chosen):
                continue
            without = _without(self._accounting, chosen)
            plan = self._with_targets(without, [(share, assigned[share]) for share in chosen], ())
            if plan is not None:
                return plan
        return None

    def _helps(self, shares: Sequence[Share]) -> bool:
        """Return whether the request is admitted without these shares."""
        key = frozenset(shares)
        if key not in self._without:
            accounting = _without(self._accounting, shares)
            self._without[key] = self.nodes_in(accounting) is not None
        return self._without[key]

    def _with_targets(
        self, accounting: State, waiting: Sequence[tuple[Share, Request]], moves: tuple[Move, ...]
    ) -> Rebalancing | None:
        """Return the plan with the first targets that admit the request; None if none do.

        `accounting` has the moves that are made, and lacks the shares that wait for a target.
        """
        (share, request), *others = waiting
        seen = self._view(accounting)
        for target in self._targets:
            nodes = NodeSet([target])
            is_allowed = share.targets is None or target in share.targets
            if target == share.node_id or not is_allowed or target not in seen.machine_state:
                continue
            if not is_admissible(seen, share.uid, request, nodes):
                continue
            after = assign(accounting, share.uid, share.containers[0], nodes, request)
            placed = self.nodes_in(after)
            if placed is None:
                continue
            made = (*moves, Move(share, target, request.get(MEMORY, 0)))
            plan = self._with_targets(after, others, made) if others else Rebalancing(made, placed)
            if plan is not None:
                return plan
        return None


def _subsets(costs: Sequence[tuple[int, int]], most: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of 1 to `most` indices by the sum of their costs, which ascend; not empty.

    The second bytes decide between equal sums of the first; then size and indices do. A set is made
    of one that precedes it, by replacing its last index with the next one, or by adding the next
    one; so a heap suffices.
    """
    heap: list[tuple[int, int, int, tuple[int, ...]]] = [(*costs[0], 1, (0,))]
    while heap:
        first, second, size, indices = heapq.heappop(heap)
        yield indices
        last, following = indices[-1], indices[-1] + 1
        if following < len(costs):
            more = costs[following]
            if size < most:
                sums = (first + more[0], second + more[1])
                heapq.heappush(heap, (*sums, size + 1, (*indices, following)))
            sums = (first - costs[last][0] + more[0], second - costs[last][1] + more[1])
            heapq.heappush(heap, (*sums, size, (*indices[:-1], following)))


def assignments_of(accounting: State, uid: str, node_id: int) -> tuple[HolderName, ...]:
    """Return the holders of a pod that are on exactly this node, ended ones included."""
    nodes = NodeSet([node_id])
    return tuple(
        name
        for name, blocks in accounting.assignments.get(uid, {}).items()
        if blocks and all(block.numa_affinity == nodes for block in blocks)
    )


def _resources(accounting: State, share: Share) -> Request:
    """Return what the share has, by resource name."""
    names = assignments_of(accounting, share.uid, share.node_id)
    return sum_blocks(b for name in names for b in accounting.assignments[share.uid][name])


def _without(accounting: State, shares: Iterable[Share]) -> State:
    for share in shares:
        names = assignments_of(accounting, share.uid, share.node_id)
        accounting = remove_containers(accounting, share.uid, names)
    return charge_shortfalls(accounting)
