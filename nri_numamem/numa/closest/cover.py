"""The covering problem: which nodes together hold what is needed.

Nodes hold amounts in one or more dimensions (memory, hugepages of one size). A set of nodes
covers the need if its sums reach the need in every dimension. ``Cover`` finds the smallest size
of such a set, and the best set of a given size: on a small machine the first of the enumerated
sets that covers (``numa.distances``), otherwise by ``search``. Groups, pods and policies are
unknown here.

In one dimension the smallest set consists of the largest nodes. In several dimensions it mostly
consists of the nodes that hold most of one dimension. Otherwise, nodes with equal amounts in all
dimensions but the first form a class, and the largest nodes of a class come first. Machines have
few classes, one per configuration of hugepages, so a search with bounds tries out how many nodes
to choose from each class.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter

from nri_numamem.numa.closest.partial_sets import Amounts
from nri_numamem.numa.closest.search import Problem, find_closest
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences

NO_NODES = NodeSet()

# Up to so many nodes the search always finds the smallest set; the hardest case took 9,000 steps.
# Among more nodes the search for one size ends after MAX_STEPS. 64 nodes with nine configurations
# of hugepages took 1,000 steps. More than 16 nodes that all differ in several dimensions may
# exceed the limit, and then the set found may be larger than necessary.
EXACT_NODES = 16
MAX_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class Cover:
    """Nodes with amounts, and a need; all tuples have the same length."""

    amounts: Mapping[int, Amounts]
    """Node id, ascending -> its amounts."""
    need: Amounts

    @property
    def nodes(self) -> NodeSet:
        """The nodes to choose from."""
        return NodeSet.from_mask(sum([1 << node_id for node_id in self.amounts]))

    def covers(self, nodes: Iterable[int]) -> bool:
        """Return whether the nodes, which must be in `amounts`, hold the need together."""
        return _covers([self.amounts[node_id] for node_id in nodes], self.need)

    def without(self, nodes: NodeSet) -> "Cover":
        """Return the problem that remains when `nodes` are chosen."""
        if not nodes:
            return self
        held = [self.amounts[node_id] for node_id in nodes]
        need = tuple(n - sum(h[d] for h in held) for d, n in enumerate(self.need))
        return Cover({n: a for n, a in self.amounts.items() if n not in nodes}, need)

    def smallest_size(self, at_least: int = 1, fixed: NodeSet = NO_NODES) -> int | None:
        """Return the smallest size, not below `at_least`, of a set that covers; None for none.

        The nodes in `fixed` belong to every set.
        """
        remaining = self.without(fixed)
        low, high = max(remaining.lower_bound(), at_least - len(fixed)), len(remaining.amounts)
        if low > high:
            return None
        if len(remaining.need) <= 1 or remaining.richest_cover(low):
            return low + len(fixed)
        # All nodes together cover, since that is so in each dimension.
        classes = _Classes(remaining)
        sizes = range(max(low, classes.lower_bound()), high)
        return next((n for n in sizes if classes.find(n) is not None), high) + len(fixed)

    def lower_bound(self) -> int:
        """Return a size below which no set covers, by looking at each dimension alone.

        The bound exceeds the number of nodes if all nodes together hold too little.
        """
        bound = 0
        for dimension, need in enumerate(self.need):
            if need > 0:
                column = sorted([held[dimension] for held in self.amounts.values()], reverse=True)
                bound = max(bound, bisect_left(list(accumulate(column)), need) + 1)
        return bound

    def richest_cover(self, count: int) -> bool:
        """Return whether the `count` nodes that hold most of some dimension cover the need."""
        for dimension in range(len(self.need)):
            ordered = sorted(self.amounts.values(), key=itemgetter(slice(dimension, None)))
            if _covers(ordered[len(ordered) - count :], self.need):
                return True
        return False

    def best(self, size: int, preferences: Preferences, fixed: NodeSet = NO_NODES) -> NodeSet:
        """Return the best set of `size` nodes that covers; ValueError if there is none.

        The order is that of ``Preferences.rank``. The nodes in `fixed` belong to every set.
        """
        previous_nodes = preferences.previous_nodes
        is_candidate = (
            len(previous_nodes) == size
            and fixed.issubset(previous_nodes)
            and previous_nodes.issubset(self.nodes)
        )
        if is_candidate and self.covers(previous_nodes):
            return previous_nodes
        distances = preferences.distances if preferences.prefer_closest else None
        if distances is not None:
            nodes = self.nodes
            for mask, ids in distances.ranked_sets(size, nodes):
                if not (mask & ~nodes.mask or fixed.mask & ~mask) and self.covers(ids):
                    return NodeSet.from_mask(mask)
        remaining, count = self.without(fixed), size - len(fixed)
        problem = Problem(remaining.amounts, remaining.need, count, distances, fixed)
        found = find_closest(problem)
        if found is None:
            found = _Classes(remaining).find(count)
        if found is None:
            raise ValueError(f"no {size} nodes cover the need")
        return found | fixed


def _covers(held: Sequence[Amounts], need: Amounts) -> bool:
    for dimension, needed in enumerate(need):
        if sum([amounts[dimension] for amounts in held]) < needed:
            return False
    return True


class _Classes:
    """Nodes grouped by their amounts in all dimensions but the first.

    A weighted sum of all dimensions is one more dimension: what covers in each dimension covers
    in the sum. It excludes sizes early that each dimension alone would allow.
    """

    def __init__(self, cover: Cover) -> None:
        # Amounts beyond the need, and dimensions without a need, make no difference.
        needed = [d for d, need in enumerate(cover.need) if need > 0]
        need = tuple(cover.need[d] for d in needed)
        members: dict[Amounts, list[tuple[int, int]]] = {}
        for node_id, amounts in cover.amounts.items():
            cut = tuple(map(min, (amounts[d] for d in needed), need))
            members.setdefault(cut[1:], []).append((-sum(cut[:1]), node_id))
        self._members = [sorted(nodes) for nodes in members.values()]
        # All dimensions get about the same weight in the sum, whatever their units.
        self._weights = tuple(max(need, default=0) // n for n in need)
        self._need = self._with_sum(need)
        # By class and number of nodes: what the largest nodes of the class hold.
        self._held = [
            [
                self._with_sum((first, *(amount * number for amount in others))[: len(needed)])
                for number, first in enumerate(accumulate((-n[0] for n in nodes), initial=0))
            ]
            for nodes, others in zip(self._members, members, strict=True)
        ]
        # By first class and number of nodes: the most that these and later classes can hold.
        self._upper_bounds = [self._upper_bound(index) for index in range(len(members) + 1)]
        self._steps = 0
        self._is_exact = len(cover.amounts) <= EXACT_NODES

    def _with_sum(self, amounts: Amounts) -> Amounts:
        return (*amounts, sum(map(int.__mul__, amounts, self._weights)))

    def _upper_bound(self, index: int) -> list[Amounts]:
        """Return, by number of nodes, the most that the classes from `index` on can hold."""
        sums: list[list[int]] = []
        for d in range(len(self._need)):
            columns = ([amounts[d] for amounts in held] for held in self._held[index:])
            gains = [b - a for column in columns for a, b in pairwise(column)]
            sums.append(list(accumulate(sorted(gains, reverse=True), initial=0)))
        nodes = sum(map(len, self._members[index:]))
        return [tuple(column[number] for column in sums) for number in range(nodes + 1)]

    def lower_bound(self) -> int:
        """Return a size below which no set covers; all nodes together must cover."""
        by_size = enumerate(self._upper_bounds[0])
        return next(n for n, upper in by_size if all(map(int.__ge__, upper, self._need)))

    def find(self, count: int) -> NodeSet | None:
        """Return any `count` nodes that cover; None if there are none, or none was found."""
        self._steps = 0
        numbers = self._choose(0, count, (0,) * len(self._need))
        if numbers is None:
            return None
        chosen = zip(self._members, numbers, strict=True)
        return NodeSet(node_id for nodes, number in chosen for _, node_id in nodes[:number])

    def _choose(self, index: int, count: int, held: Amounts) -> tuple[int, ...] | None:
        """Return the numbers of nodes to choose from the classes from `index` on.

        Their sum is `count`, and the nodes cover the need together with what is `held` already.
        """
        upper_bound = self._upper_bounds[index]
        self._steps += 1
        if count >= len(upper_bound) or (self._steps > MAX_STEPS and not self._is_exact):
            return None
        if any(map(int.__lt__, map(int.__add__, held, upper_bound[count]), self._need)):
            return None
        if index == len(self._held):
            return ()
        own = self._held[index]
        for number in range(min(count, len(own) - 1), -1, -1):
            more = tuple(map(int.__add__, held, own[number]))
            others = self._choose(index + 1, count - number, more)
            if others is not None:
                return (number, *others)
        return None
