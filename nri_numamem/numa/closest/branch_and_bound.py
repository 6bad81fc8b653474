"""Branch and bound for a prime module: how many nodes to choose from each of its children.

The partial sets of each child are known (``partial_sets``). Any two nodes of two different
children have the same pair distance, but each two children have another one. The search goes
through the children in turn, tries every number of nodes, and leaves a branch when a lower bound
of its cost is not below the best set found so far.
"""

from collections.abc import Sequence
from typing import TypeAlias

from nri_numamem.numa.closest.hierarchy import PairDistance
from nri_numamem.numa.closest.partial_sets import (
    EXACT_NODES,
    INFINITE_COST,
    Bounds,
    PartialSet,
    PartialSets,
)

# Limit on the costs that are looked up, some ten million a second. A ring or mesh of 8 sockets
# needs a fraction; a random matrix reaches it, and then the result may not be the closest set.
MAX_LOOKUPS = 10_000
# The greedy search starts from so many children; more hardly improve the first best set.
MAX_SEEDS = 8

Child: TypeAlias = tuple[int, PartialSets]
"""A node that represents the child in distances, and the partial sets of the child."""


def best_set_of_children(
    children: Sequence[Child], pair_distance: PairDistance, bounds: Bounds
) -> PartialSet | None:
    """Return the best set of `bounds.count` nodes of all children; None if none was found.

    Each child has a partial set of no nodes.
    """
    # Between sets of equal cost the highest id decides, so children with high ids come first.
    ordered = sorted(children, key=lambda child: -max(s.mask for sets in child[1] for s in sets))
    firsts = [first for first, _ in ordered]
    distances = [[pair_distance(a, b) if a != b else 0 for b in firsts] for a in firsts]
    search = _Search([sets for _, sets in ordered], distances, bounds)
    for seed in search.seeds():
        search.grow(seed)
    empty = PartialSet(0, 0, (0,) * len(bounds.need))
    search.branch(0, empty, [0] * len(ordered), bounds.count)
    return search.best


class _Search:
    """One search; `best` is the best set so far.

    `costs_to` in its methods is a list with, per child, the cost of the pairs between one node
    of that child and all nodes chosen so far.
    """

    def __init__(
        self, children: Sequence[PartialSets], distances: Sequence[Sequence[int]], bounds: Bounds
    ) -> None:
        self.best: PartialSet | None = None
        self._children = children
        self._distances = distances
        self._bounds = bounds
        sizes = [len(sets) - 1 for sets in children]
        self._nodes_from = [sum(sizes[index:]) for index in range(len(children) + 1)]
        is_exact = self._nodes_from[0] <= EXACT_NODES
        self._lookups_left = INFINITE_COST if is_exact else MAX_LOOKUPS
        # A number of nodes with which the need cannot be met has no partial sets.
        self._inside_costs = [
            [min(sets).cost if sets else INFINITE_COST for sets in by_number]
            for by_number in children
        ]
        self._node_costs = [self._lowest_node_costs(index) for index in range(len(children))]

    def _lowest_node_costs(self, index: int) -> list[int]:
        """Return a lower bound of the cost of one node of a child, by number of nodes missing.

        It includes the pairs within the child and with the other missing nodes. A pair counts
        for both of its nodes, so all costs here count twice.
        """
        outside: list[int] = []
        for other, sets in enumerate(self._children):
            if other != index:
                outside += [self._distances[index][other]] * (len(sets) - 1)
        lowest_outside = [0]
        for distance in sorted(outside)[: self._bounds.count]:
            lowest_outside.append(lowest_outside[-1] + distance)
        inside = self._inside_costs[index]
        found = [0]
        for missing in range(1, self._bounds.count + 1):
            numbers = range(1, min(len(inside), missing + 1))
            per_node = (
                (2 * inside[n] + n * lowest_outside[min(missing - n, len(lowest_outside) - 1)]) // n
                for n in numbers
            )
            found.append(min(per_node, default=INFINITE_COST))
        return found

    def seeds(self) -> list[int]:
        """Return the children whose nodes cost least."""
        ordered = sorted(range(len(self._children)), key=lambda child: self._node_costs[child][-1])
        return ordered[:MAX_SEEDS]

    def grow(self, seed: int) -> None:
        """Greedy search: choose nodes one by one, each where it costs least, from `seed` on."""
        numbers = [0] * len(self._children)
        costs_to = [0] * len(self._children)
        child = seed
        for _ in range(self._bounds.count):
            numbers[child] += 1
            costs_to = self._costs_to(costs_to, child, 1)
            costs = [
                (cost + inside[n + 1] - inside[n], index)
                for index, (cost, inside, n) in enumerate(
                    zip(costs_to, self._inside_costs, numbers, strict=True)
                )
                if n + 1 < len(inside)
            ]
            child = min(costs, default=(0, 0))[1]
        self._try_numbers(numbers)

    def _try_numbers(self, numbers: Sequence[int]) -> None:
        """Try the cheapest partial sets with these numbers of nodes per child."""
        chosen = PartialSet(0, 0, (0,) * len(self._bounds.need))
        costs_to = [0] * len(self._children)
        for child, n in enumerate(numbers):
            if n >= len(self._children[child]) or not self._children[child][n]:
                return
            chosen = _join(chosen, self._children[child][n][0], costs_to[child] * n)
            costs_to = self._costs_to(costs_to, child, n)
        self._try(chosen)

    def branch(self, index: int, chosen: PartialSet, costs_to: list[int], missing: int) -> None:
        """Try every number of nodes of the children from `index` on."""
        if missing == 0:
            self._try(chosen)
            return
        if self._lookups_left <= 0 or self._nodes_from[index] < missing:
            return
        for number, sets in enumerate(self._children[index][: missing + 1]):
            further = self._costs_to(costs_to, index, number)
            for each in sets:
                joined = _join(chosen, each, costs_to[index] * number)
                if self._can_improve(index + 1, joined, further, missing - number):
                    self.branch(index + 1, joined, further, missing - number)

    def _costs_to(self, costs_to: list[int], child: int, number: int) -> list[int]:
        """Return `costs_to` after `number` more nodes of a child were chosen."""
        if not number:
            return costs_to
        distances = self._distances[child]
        return [cost + each * number for cost, each in zip(costs_to, distances, strict=True)]

    def _try(self, chosen: PartialSet) -> None:
        covers = all(map(int.__ge__, chosen.amounts, self._bounds.need))
        if covers and (self.best is None or chosen[:2] < self.best[:2]):
            self.best = chosen

    def _can_improve(
        self, index: int, chosen: PartialSet, costs_to: list[int], missing: int
    ) -> bool:
        """Return whether nodes of the children from `index` on can make the best set so far."""
        if not all(map(int.__ge__, chosen.amounts, self._bounds.lower[missing])):
            return False
        self._lookups_left -= len(self._children) - index + 20
        if self.best is None:
            return True
        costs: list[int] = []
        for child in range(index, len(self._children)):
            cost = 2 * costs_to[child] + self._node_costs[child][missing]
            costs += [cost] * min(len(self._inside_costs[child]) - 1, missing)
        lower_bound = 2 * chosen.cost + sum(sorted(costs)[:missing])
        best_cost = 2 * self.best.cost
        return lower_bound < best_cost or (
            lower_bound == best_cost and chosen.mask < self.best.mask
        )


def _join(first: PartialSet, second: PartialSet, pairs_cost: int) -> PartialSet:
    amounts = tuple(map(int.__add__, first.amounts, second.amounts))
    return PartialSet(first.cost + second.cost + pairs_cost, first.mask | second.mask, amounts)
