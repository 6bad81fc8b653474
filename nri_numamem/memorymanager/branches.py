"""Branch and bound where distances have no structure: how many nodes to take from which part.

Parts are modules of which the best ways to take 0, 1, 2, ... nodes are known (``ways``); between
two parts each pair of nodes costs the same, but no two parts are alike to the others. Parts are
taken up in turn, with every number of nodes, and a branch is left when the lowest cost that it
could still have is no better than the best found.
"""

from collections.abc import Sequence
from typing import TypeAlias

from nri_numamem.memorymanager.modules import PairCost
from nri_numamem.memorymanager.tree import OUT_OF_REACH, Amounts
from nri_numamem.memorymanager.ways import EXACT_NODES, Horizon, Way, Ways

# Costs looked up, some ten million a second. A ring or mesh of 8 sockets needs a fraction of it;
# a matrix like noise ends here, and its set may not be the closest.
MOST_LOOKS = 10_000
# From so many parts the greedy search begins; more make the first bound little better.
MOST_SEEDS = 8

Part: TypeAlias = tuple[int, Ways]
"""A node that stands for the part in distances, and the ways to take nodes from the part."""


def best_of_parts(parts: Sequence[Part], pair_cost: PairCost, horizon: Horizon) -> Way | None:
    """Return the best way to take `horizon.count` nodes from the parts together, if any.

    Each part has a way to take no nodes.
    """
    # High ids decide between masks of equal cost, so they come first.
    ordered = sorted(parts, key=lambda part: -max(way[1] for ways in part[1] for way in ways))
    firsts = [first for first, _ in ordered]
    apart = [[pair_cost(a, b) if a != b else 0 for b in firsts] for a in firsts]
    search = _Search([ways for _, ways in ordered], apart, horizon)
    for seed in search.seeds():
        search.grow(seed)
    search.descend(0, (0, 0, (0,) * len(horizon.need)), [0] * len(ordered), horizon.count)
    return search.found


class _Search:
    """One search; `found` is the best way so far."""

    def __init__(
        self, parts: Sequence[Ways], apart: Sequence[Sequence[int]], horizon: Horizon
    ) -> None:
        self.found: Way | None = None
        self._parts = parts
        self._apart = apart
        self._horizon = horizon
        self._room = [sum(len(ways) - 1 for ways in parts[i:]) for i in range(len(parts) + 1)]
        self._looks = MOST_LOOKS if self._room[0] > EXACT_NODES else OUT_OF_REACH
        # Numbers of nodes with which the need is out of reach have no ways, and no price.
        self._least = [[min(n)[0] if n else OUT_OF_REACH for n in ways] for ways in parts]
        self._prices = [self._price(index) for index in range(len(parts))]

    def _price(self, index: int) -> list[int]:
        """Return what a node of a part costs at least, by the number of nodes still missing.

        That is among its own and towards those still to come, which are counted from both sides:
        so everything counts twice here.
        """
        others: list[int] = []
        for other, ways in enumerate(self._parts):
            if other != index:
                others += [self._apart[index][other]] * (len(ways) - 1)
        floor = [0]
        for price in sorted(others)[: self._horizon.count]:
            floor.append(floor[-1] + price)
        least = self._least[index]
        prices = [0]
        for missing in range(1, self._horizon.count + 1):
            numbers = range(1, min(len(least), missing + 1))
            each = (
                (2 * least[n] + n * floor[min(missing - n, len(floor) - 1)]) // n for n in numbers
            )
            prices.append(min(each, default=OUT_OF_REACH))
        return prices

    def seeds(self) -> list[int]:
        """Return the parts whose nodes are cheapest."""
        ordered = sorted(range(len(self._parts)), key=lambda part: self._prices[part][-1])
        return ordered[:MOST_SEEDS]

    def grow(self, seed: int) -> None:
        """Take nodes one by one, each where it costs least, beginning with one part."""
        taken = [0] * len(self._parts)
        towards = [0] * len(self._parts)
        following = seed
        for _ in range(self._horizon.count):
            taken[following] += 1
            towards = self._towards(towards, following, 1)
            costs = [
                (cost + least[n + 1] - least[n], part)
                for part, (cost, least, n) in enumerate(
                    zip(towards, self._least, taken, strict=True)
                )
                if n + 1 < len(least)
            ]
            following = min(costs, default=(0, 0))[1]
        way: Way = (0, 0, (0,) * len(self._horizon.need))
        towards = [0] * len(self._parts)
        for part, n in enumerate(taken):
            if n >= len(self._parts[part]) or not self._parts[part][n]:
                return
            way = self._add(way, self._parts[part][n][0], towards[part] * n)
            towards = self._towards(towards, part, n)
        self._finish(way)

    def descend(self, index: int, way: Way, towards: list[int], missing: int) -> None:
        """Try every number of nodes of the parts from `index` on."""
        if missing == 0:
            self._finish(way)
            return
        if self._looks <= 0 or self._room[index] < missing:
            return
        for taken, ways in enumerate(self._parts[index][: missing + 1]):
            further = self._towards(towards, index, taken)
            for each in ways:
                added = self._add(way, each, towards[index] * taken)
                if self._may_win(index + 1, added, further, missing - taken):
                    self.descend(index + 1, added, further, missing - taken)

    def _towards(self, towards: list[int], part: int, taken: int) -> list[int]:
        """Return what a node of each part costs towards the nodes taken so far."""
        if not taken:
            return towards
        return [cost + more * taken for cost, more in zip(towards, self._apart[part], strict=True)]

    @staticmethod
    def _add(way: Way, more: Way, between: int) -> Way:
        held: Amounts = tuple(map(int.__add__, way[2], more[2]))
        return (way[0] + more[0] + between, way[1] | more[1], held)

    def _finish(self, way: Way) -> None:
        covers = all(map(int.__ge__, way[2], self._horizon.need))
        if covers and (self.found is None or way[:2] < self.found[:2]):
            self.found = way

    def _may_win(self, index: int, way: Way, towards: list[int], missing: int) -> bool:
        """Tell whether a branch could still beat the best found."""
        if not all(map(int.__ge__, way[2], self._horizon.floor[missing])):
            return False
        self._looks -= len(self._parts) - index + 20
        if self.found is None:
            return True
        prices: list[int] = []
        for part in range(index, len(self._parts)):
            price = 2 * towards[part] + self._prices[part][missing]
            prices += [price] * min(len(self._least[part]) - 1, missing)
        bound = 2 * way[0] + sum(sorted(prices)[:missing])
        best = 2 * self.found[0]
        return bound < best or (bound == best and way[1] < self.found[1])
