"""Ways to take nodes from a tree, by number of nodes, and how those of two subtrees combine.

A way is (cost, mask of the nodes, what they hold per dimension). Ways compare by cost, then by
mask, so "the closest, then the lowest ids" is plain tuple order. A costlier way stays beside a
cheaper one if it holds more in some dimension, and amounts are cut off where more makes no
difference. Where there is no need to meet, ``nearest`` is quicker.

Ways that will cost more than `bound` in the end are not made. The lowest cost that this kept out
is remembered: it is where to go on when nothing was found.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

from nri_numamem.memorymanager.tree import OUT_OF_REACH, Amounts, Tree
from nri_numamem.values import valueclass

Way: TypeAlias = tuple[int, int, Amounts]
Ways: TypeAlias = list[list[Way]]
"""Index: number of nodes taken."""

# Up to so many nodes nothing is left out: ten have at most 252 sets of one size.
EXACT_NODES = 10
# Among more nodes so many ways stay side by side; fewer once so many pairs of ways were joined in
# one pass (some milliseconds). It takes amounts that differ oddly from node to node to get there,
# and then a farther set may be found.
MOST_WAYS = 32
MOST_PAIRS = 8_000
FEW_WAYS = 4


@valueclass(frozen=True, slots=True)
class Horizon:
    """What is asked for in the end, and what nodes not yet looked at can add to it."""

    count: int
    """Nodes to take in all."""
    need: Amounts
    enough: tuple[Amounts, ...]
    """By number of nodes missing: what is enough, since any so many nodes hold the rest ..."""
    floor: tuple[Amounts, ...]
    """... and what is needed by then, since no so many nodes hold more."""

    is_exact: bool
    """Whether no way may be left out, since there are few nodes."""

    @classmethod
    def of(cls, amounts: Sequence[Amounts], need: Amounts, count: int) -> "Horizon":
        """Look at all nodes' amounts, of which there are `count` at least.

        Amounts may be cut only where the `count` least of a dimension do not hold its need.
        """

        def left(*, most: bool) -> tuple[Amounts, ...]:
            columns: list[list[int]] = []
            for d, all_of_it in enumerate(need):
                ordered = sorted((node[d] for node in amounts), reverse=most)[:count]
                columns.append([all_of_it - held for held in accumulate(ordered, initial=0)])
            return tuple(tuple(column[n] for column in columns) for n in range(count + 1))

        is_exact = len(amounts) <= EXACT_NODES
        return cls(count, need, left(most=False), left(most=True), is_exact)


class Gathering:
    """One pass over a tree, within a bound on what the whole set may cost."""

    def __init__(self, horizon: Horizon, bound: int) -> None:
        self.kept_out = OUT_OF_REACH
        """The lowest cost above the bound that was met."""
        self._horizon = horizon
        self._bound = bound
        self._pairs = 0
        self._none: Way = (0, 0, (0,) * len(horizon.need))

    def ways(self, tree: Tree) -> Ways:
        """Return the ways to take nodes from a tree that can matter."""
        lowest = min(map(int.__add__, tree.least[1:], tree.beyond[1:]), default=OUT_OF_REACH)
        if lowest > self._bound:
            self.kept_out = min(self.kept_out, lowest)
            return [[self._none]]
        if tree.forks is None:
            return self._run(tree)
        first, second = tree.forks
        found: Ways = [[] for _ in tree.least]
        some, others = self.ways(first), self.ways(second)
        for taken, ways in enumerate(some):
            if not ways:
                continue
            each = tree.apart * taken
            for more, other in enumerate(others[: len(found) - taken]):
                rest = tree.beyond[taken + more] + each * more
                lowest = first.least[taken] + second.least[more] + rest
                if lowest > self._bound:
                    self.kept_out = min(self.kept_out, lowest)
                elif other:
                    self._combine(found[taken + more], ways, other, each * more, rest)
        return [self.keep(ways, number) if ways else ways for number, ways in enumerate(found)]

    def _run(self, tree: Tree) -> Ways:
        """Return the ways to take nodes of a leaf: the lowest ids."""
        ways: Ways = [[self._none]]
        mask = 0
        for taken, cost in enumerate(tree.least[1:], start=1):
            mask |= 1 << tree.ids[taken - 1]
            ways.append([(cost, mask, tuple(amount * taken for amount in tree.held))])
        return ways

    def _combine(
        self, found: list[Way], ways: list[Way], others: list[Way], between: int, rest: int
    ) -> None:
        """Add each way joined with each other one, unless it will cost too much."""
        self._pairs += len(ways) * len(others)
        most = self._bound - rest
        for cost, mask, held in ways:
            for other_cost, other_mask, other_held in others:
                # Both are sorted by cost: those that follow cost more still.
                if cost + other_cost > most:
                    self.kept_out = min(self.kept_out, cost + other_cost + rest)
                    break
                amounts = tuple(map(int.__add__, held, other_held))
                found.append((cost + other_cost + between, mask | other_mask, amounts))

    def keep(self, ways: list[Way], taken: int) -> list[Way]:
        """Return those of some ways to take `taken` nodes that may still be best in the end."""
        ways = self._cut(ways, self._horizon.count - taken)
        if len(ways) < 2:
            return ways
        cheapest: dict[Amounts, tuple[int, int]] = {}
        for cost, mask, held in ways:
            if held not in cheapest or (cost, mask) < cheapest[held]:
                cheapest[held] = (cost, mask)
        kept: list[Way] = []
        for cost, mask, held in sorted((*way, held) for held, way in cheapest.items()):
            if not any(all(map(int.__ge__, other[2], held)) for other in kept):
                kept.append((cost, mask, held))
        limit = MOST_WAYS if self._pairs < MOST_PAIRS else FEW_WAYS
        if len(kept) <= limit or self._horizon.is_exact:
            return kept
        # The richest stay in any case, so that what can be covered is covered.
        dimensions = range(len(self._horizon.need))
        richest = [max(kept, key=lambda way: way[2][d]) for d in dimensions]
        return sorted({*kept[:limit], *richest})

    def _cut(self, ways: list[Way], missing: int) -> list[Way]:
        """Drop ways that cannot cover any more, and level what is enough whatever follows."""
        enough, floor = self._horizon.enough[missing], self._horizon.floor[missing]
        return [
            (cost, mask, tuple(map(min, held, enough)))
            for cost, mask, held in ways
            if all(map(int.__ge__, held, floor))
        ]
