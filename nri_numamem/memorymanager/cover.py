"""The covering problem: which nodes together hold what is needed.

Nodes have amounts in one or more dimensions (memory, hugepages of a size), and a set covers the
need when its sums reach it in every dimension. Asked for are the smallest size of such a set and
the best set of a given size: on a small machine the first that covers of all sets as they are
ranked (``ranked``), else ``closest`` finds it. Groups, pods and policies are not known here.

In one dimension the smallest set is the largest nodes, and in several it mostly is those that
hold most of one of them. Where these hold too little of another, nodes that agree in all but
the first dimension form a class, of which the largest are taken; machines have few classes, one
per way to set up hugepages, so the numbers to take from each are tried out, with bounds.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter

from nri_numamem.memorymanager.closest import Problem, closest
from nri_numamem.memorymanager.hint import Preferences
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.tree import Amounts
from nri_numamem.values import valueclass

NO_NODES = NodeSet()

# Among so many nodes the smallest set is found, whatever they hold: the hardest took 9,000 steps.
# Among more, the search for a set of one size ends after MOST_STEPS. 64 nodes with nine kinds of
# pools took 1,000. Where more than 16 nodes all have other pools of several sizes it may take
# more, and then a set may be found that is larger than need be.
EXACT_NODES = 16
MOST_STEPS = 2_000


@valueclass(frozen=True, slots=True)
class Cover:
    """Nodes with amounts, and a need; all tuples have the same length."""

    amounts: Mapping[int, Amounts]
    """Node id, ascending -> its amounts."""
    need: Amounts

    @property
    def nodes(self) -> NodeSet:
        """All nodes of the problem."""
        return NodeSet.from_mask(sum([1 << node_id for node_id in self.amounts]))

    def covers(self, nodes: Iterable[int]) -> bool:
        """Tell whether the nodes, all of them in the problem, hold the need together."""
        return _suffice([self.amounts[node_id] for node_id in nodes], self.need)

    def without(self, nodes: NodeSet) -> "Cover":
        """Return the problem that is left when `nodes` are taken."""
        if not nodes:
            return self
        taken = [self.amounts[node_id] for node_id in nodes]
        need = tuple(n - sum(t[d] for t in taken) for d, n in enumerate(self.need))
        return Cover({n: a for n, a in self.amounts.items() if n not in nodes}, need)

    def smallest(self, at_least: int = 1, fixed: NodeSet = NO_NODES) -> int | None:
        """Return the smallest size, not below `at_least`, of a set that covers; None for none.

        The nodes in `fixed` belong to every set.
        """
        taken = len(fixed)
        rest = self.without(fixed) if taken else self
        low, high = max(rest.fewest(), at_least - taken), len(rest.amounts)
        if low > high:
            return None
        if len(rest.need) <= 1 or rest.richest_cover(low):
            return low + taken
        if not rest.covers(rest.amounts):
            return None
        classes = _Classes(rest)
        sizes = range(max(low, classes.fewest()), high)
        return next((n for n in sizes if classes.some(n) is not None), high) + taken

    def fewest(self) -> int:
        """Return a size below which no set covers, as each dimension by itself demands.

        One more than there are nodes when all together hold too little of something.
        """
        fewest = 0
        for dimension, need in enumerate(self.need):
            if need > 0:
                column = sorted([held[dimension] for held in self.amounts.values()], reverse=True)
                fewest = max(fewest, bisect_left(list(accumulate(column)), need) + 1)
        return fewest

    def richest_cover(self, count: int) -> bool:
        """Tell whether those `count` nodes cover that hold most of some dimension."""
        for dimension in range(len(self.need)):
            ordered = sorted(self.amounts.values(), key=itemgetter(slice(dimension, None)))
            if _suffice(ordered[len(ordered) - count :], self.need):
                return True
        return False

    def best(self, size: int, preferences: Preferences, fixed: NodeSet = NO_NODES) -> NodeSet:
        """Return the covering set of `size` nodes that ranks first; ValueError when there is none.

        The nodes in `fixed` belong to every set.
        """
        home = preferences.home
        is_candidate = len(home) == size and fixed.issubset(home) and home.issubset(self.nodes)
        if is_candidate and self.covers(home):
            return home
        distances = preferences.distances if preferences.prefer_closest else None
        if distances is not None:
            nodes = self.nodes
            others = ~nodes.mask
            for mask, ids in distances.ranked(size, nodes):
                if not (mask & others or fixed.mask & ~mask) and self.covers(ids):
                    return NodeSet.from_mask(mask)
        rest = self.without(fixed)
        count = size - len(fixed)
        found = closest(Problem(rest.amounts, rest.need, count, distances, fixed))
        if found is None:
            found = _Classes(rest).some(count)
        if found is None:
            raise ValueError(f"no {size} nodes cover the need")
        return found | fixed


def _suffice(held: Sequence[Amounts], need: Amounts) -> bool:
    for dimension, needed in enumerate(need):
        if sum([amounts[dimension] for amounts in held]) < needed:
            return False
    return True


class _Classes:
    """Nodes that agree in all dimensions but the first, and what so many of each class hold.

    A weighted sum of all dimensions is one more: what covers in each covers in the sum. It shows
    early that a number of nodes is too small, where each dimension by itself is in reach.
    """

    def __init__(self, cover: Cover) -> None:
        # More than the need makes no difference, and neither does what is not needed.
        missing = [d for d, need in enumerate(cover.need) if need > 0]
        need = tuple(cover.need[d] for d in missing)
        members: dict[Amounts, list[tuple[int, int]]] = {}
        for node_id, amounts in cover.amounts.items():
            cut = tuple(map(min, (amounts[d] for d in missing), need))
            members.setdefault(cut[1:], []).append((-sum(cut[:1]), node_id))
        self._members = [sorted(nodes) for nodes in members.values()]
        # So each dimension has the same weight in the sum, whatever its unit.
        self._weights = tuple(max(need, default=0) // n for n in need)
        self._need = self._with_sum(need)
        self._held = [
            [
                self._with_sum((first, *(amount * number for amount in others))[: len(missing)])
                for number, first in enumerate(accumulate((-n[0] for n in nodes), initial=0))
            ]
            for nodes, others in zip(self._members, members, strict=True)
        ]
        self._most = [self._reach(index) for index in range(len(members) + 1)]
        self._steps = 0
        self._is_exact = len(cover.amounts) <= EXACT_NODES

    def _with_sum(self, amounts: Amounts) -> Amounts:
        return (*amounts, sum(map(int.__mul__, amounts, self._weights)))

    def _reach(self, index: int) -> list[Amounts]:
        """Return, by number of nodes, what the classes from `index` on hold at most."""
        sums: list[list[int]] = []
        for d in range(len(self._need)):
            columns = ([amounts[d] for amounts in held] for held in self._held[index:])
            gains = [b - a for column in columns for a, b in pairwise(column)]
            sums.append(list(accumulate(sorted(gains, reverse=True), initial=0)))
        nodes = sum(map(len, self._members[index:]))
        return [tuple(column[number] for column in sums) for number in range(nodes + 1)]

    def fewest(self) -> int:
        """Return a size below which no set covers; all nodes together do."""
        reach = self._most[0]
        return next(n for n, most in enumerate(reach) if all(map(int.__ge__, most, self._need)))

    def some(self, count: int) -> NodeSet | None:
        """Return some `count` nodes that cover; None when there are none, or none was found."""
        self._steps = 0
        numbers = self._take(0, count, (0,) * len(self._need))
        if numbers is None:
            return None
        taken = zip(self._members, numbers, strict=True)
        return NodeSet(node_id for nodes, number in taken for _, node_id in nodes[:number])

    def _take(self, index: int, count: int, held: Amounts) -> tuple[int, ...] | None:
        """Return how many nodes of the classes from `index` on make `count` and cover."""
        reach = self._most[index]
        self._steps += 1
        if count >= len(reach) or (self._steps > MOST_STEPS and not self._is_exact):
            return None
        if any(map(int.__lt__, map(int.__add__, held, reach[count]), self._need)):
            return None
        if index == len(self._held):
            return ()
        own = self._held[index]
        for number in range(min(count, len(own) - 1), -1, -1):
            more = tuple(map(int.__add__, held, own[number]))
            rest = self._take(index + 1, count - number, more)
            if rest is not None:
                return (number, *rest)
        return None
