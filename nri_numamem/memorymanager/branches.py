"""Branch and bound where distances have no structure: how many nodes to take from which part.

Parts are modules of which the best ways to take 0, 1, 2, ... nodes are known (``ways``); between
two parts each pair of nodes costs the same, but no two parts are alike to the others. Parts are
taken up in turn, with every number of nodes, and a branch is left when the lowest cost that it
could still have is no better than the best found.
"""

from collections.abc import Sequence
from typing import TypeAlias

from nri_numamem.memorymanager.modules import PairCost
from nri_numamem.memorymanager.ways import Amounts, Horizon, Way, Ways

# A ring or mesh of 8 sockets takes some dozens of steps; a matrix like noise ends here.
MOST_STEPS = 1_000

# More than any set of nodes can cost.
_OUT_OF_REACH = 2**62

Part: TypeAlias = tuple[int, Ways]
"""A node that stands for the part in distances, and the ways to take nodes from the part."""


def best_of_parts(parts: Sequence[Part], pair_cost: PairCost, horizon: Horizon) -> Way | None:
    """Return the best way to take `horizon.count` nodes from the parts together, if any."""
    # High ids decide between masks of equal cost, so they come first.
    ordered = sorted(parts, key=lambda part: -max(way[1] for ways in part[1] for way in ways))
    firsts = [first for first, _ in ordered]
    apart = [[pair_cost(a, b) if a != b else 0 for b in firsts] for a in firsts]
    search = _Search([ways for _, ways in ordered], apart, horizon)
    if sum(len(ways) - 1 for _, ways in ordered) < horizon.count:
        return None
    for seed in range(len(ordered)):
        search.grow(seed)
    start: Way = (0, 0, tuple(0 for _ in horizon.need))
    search.descend(0, start, [0] * len(ordered), horizon.count)
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
        self._steps = 0
        # Numbers of nodes with which the need is out of reach have no ways, and no price.
        self._least = [[min(n)[0] if n else _OUT_OF_REACH for n in ways] for ways in parts]
        self._room = [sum(len(ways) - 1 for ways in parts[i:]) for i in range(len(parts) + 1)]
        self._floors = [self._floor(index) for index in range(len(parts))]

    def _floor(self, index: int) -> list[int]:
        """Return, by number, what one node of a part costs towards other parts' at least."""
        prices: list[int] = []
        for other, ways in enumerate(self._parts):
            if other != index:
                prices += [self._apart[index][other]] * (len(ways) - 1)
        floor = [0]
        for price in sorted(prices)[: self._horizon.count]:
            floor.append(floor[-1] + price)
        return floor

    def grow(self, seed: int) -> None:
        """Take nodes one by one, each where it costs least, beginning with one part."""
        taken = [0] * len(self._parts)
        towards = [0] * len(self._parts)
        following = seed
        for _ in range(self._horizon.count):
            taken[following] += 1
            towards = self._towards(towards, following, 1)
            costs = {
                part: towards[part] + self._least[part][n + 1] - self._least[part][n]
                for part, n in enumerate(taken)
                if n + 1 < len(self._least[part])
            }
            following = min(costs, key=lambda part: costs[part], default=0)
        way: Way = (0, 0, tuple(0 for _ in self._horizon.need))
        towards = [0] * len(self._parts)
        for part, n in enumerate(taken):
            if not self._parts[part][n]:
                return
            way = self._add(way, self._parts[part][n][0], towards[part] * n)
            towards = self._towards(towards, part, n)
        self._finish(way)

    def descend(self, index: int, way: Way, towards: list[int], missing: int) -> None:
        """Try every number of nodes of the parts from `index` on."""
        if missing == 0:
            self._finish(way)
            return
        self._steps += 1
        if self._steps > MOST_STEPS or self._room[index] < missing:
            return
        for taken, ways in enumerate(self._parts[index][: missing + 1]):
            further = self._towards(towards, index, taken)
            for each in ways:
                added = self._add(way, each, towards[index] * taken)
                if self._may_win(index + 1, added, further, missing - taken):
                    self.descend(index + 1, added, further, missing - taken)

    def _towards(self, towards: list[int], part: int, taken: int) -> list[int]:
        """Return what a node of each part costs towards the nodes taken so far."""
        row = self._apart[part]
        return [cost + row[other] * taken for other, cost in enumerate(towards)]

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
        reach = [most[missing] for most in self._horizon.most]
        needed = zip(way[2], reach, self._horizon.need, strict=True)
        if any(held + most < need for held, most, need in needed):
            return False
        if self.found is None:
            return True
        # Pairs among the nodes to come are counted from both sides, so everything counts twice.
        prices: list[int] = []
        for part in range(index, len(self._parts)):
            least, floor = self._least[part], self._floors[part]
            sizes = range(1, min(len(least), missing + 1))
            each = [
                (2 * least[n] + n * floor[min(missing - n, len(floor) - 1)]) // n for n in sizes
            ]
            prices += [2 * towards[part] + min(each, default=0)] * len(sizes)
        bound = 2 * way[0] + sum(sorted(prices)[:missing])
        best = 2 * self.found[0]
        return bound < best or (bound == best and way[1] < self.found[1])
