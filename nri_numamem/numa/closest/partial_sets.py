"""The dynamic programme: partial sets of nodes, joined from the modules up to the whole machine.

The modules (``hierarchy``) become a binary tree. A leaf is a group of equivalent nodes: they hold
the same amounts and have the same costs, so only their number counts. The two children of an
inner vertex meet at one pair distance. A *partial set* is a choice of nodes from one subtree; it
has a cost, a mask and amounts. It is part of the whole set in the end, and one partial set for
each child is joined to one of their parent.

Two prunings keep their number small:

- Pareto: of two partial sets of one size the costlier one stays only if it holds more in some
  dimension. Amounts beyond `Bounds.upper` count as equal, and a set below `Bounds.lower` goes.
- Bound on the cost: without the need, two passes over the tree give for each subtree and number
  of nodes the lowest cost inside (`inside_cost`, upwards) and of all other nodes (`outside_cost`,
  downwards). Their sum is a lower bound for the whole set. What exceeds the limit of a pass is
  not made; the lowest cost pruned so is the limit to continue with if nothing was found.

Without a need to meet, ``search.closest_sets`` is faster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from nri_numamem.numa.closest.hierarchy import Module

# Among up to so many nodes only partial sets that cannot win are pruned: ten nodes have at most
# 252 sets of one size.
EXACT_NODES = 10
# Among more nodes, the number of partial sets of one size is limited. The limit is lower after
# MAX_JOINS joins in one pass (some milliseconds). Only amounts that differ irregularly from node
# to node reach these limits; then the result may not be the closest set.
MAX_PARTIAL_SETS = 32
MAX_JOINS = 8_000
MAX_PARTIAL_SETS_AFTER_MAX_JOINS = 4

# More than any set of nodes can cost.
INFINITE_COST = 2**62

Amounts: TypeAlias = tuple[int, ...]
"""Amounts in each dimension of the need, e.g. bytes of memory and of 2Mi hugepages."""


class PartialSet(NamedTuple):
    """Nodes from one subtree. Tuple order is the order of preference: cost, then lower ids."""

    cost: int
    """The cost of the nodes by themselves, and of all pairs of them."""
    mask: int
    """Bit N is set when node N is in the set."""
    amounts: Amounts
    """What the nodes hold, or less where `Bounds.upper` is enough."""


PartialSets: TypeAlias = list[list[PartialSet]]
"""Index: number of nodes."""


@dataclass(slots=True)
class Tree:
    """A subtree: a leaf has `ids`, `node_cost` and `amounts`, an inner vertex has `children`."""

    pair_distance: int
    """Between any two nodes of a leaf, or between any two nodes of different children."""
    ids: tuple[int, ...] = ()
    """The nodes of a leaf, ascending."""
    node_cost: int = 0
    """The cost of each of these nodes by itself."""
    amounts: Amounts = ()
    """What each of these nodes holds."""
    children: "tuple[Tree, Tree] | None" = None
    inside_cost: list[int] = field(default_factory=list)
    """By number of nodes chosen here: the lowest cost of such a partial set."""
    outside_cost: list[int] = field(default_factory=list)
    """By number of nodes chosen here: the lowest cost of the other nodes of the whole set, and of
    the pairs between these and those."""


def build_tree(
    module: Module, node_costs: Mapping[int, int], amounts: Mapping[int, Amounts], count: int
) -> Tree | None:
    """Return the tree of a module's nodes that have amounts; None if no node has any.

    No module in `module` may be prime. `inside_cost` is computed for up to `count` nodes.
    """
    pair_distance = module.pair_distance or 0
    equivalent: dict[tuple[int, Amounts], list[int]] = {}
    subtrees: list[Tree] = []
    for child in module.children or (module,):
        if child.children:
            subtree = build_tree(child, node_costs, amounts, count)
            if subtree is not None:
                subtrees.append(subtree)
        elif child.node_ids[0] in amounts:
            n = child.node_ids[0]
            equivalent.setdefault((node_costs[n], amounts[n]), []).append(n)
    subtrees += [_leaf(ids, *key, pair_distance, count) for key, ids in equivalent.items()]
    if not subtrees:
        return None
    tree = subtrees[0]
    for subtree in subtrees[1:]:
        tree = _parent(tree, subtree, pair_distance, count)
    return tree


def _leaf(ids: list[int], node_cost: int, amounts: Amounts, pair_distance: int, count: int) -> Tree:
    numbers = range(min(len(ids), count) + 1)
    inside_cost = [n * node_cost + n * (n - 1) // 2 * pair_distance for n in numbers]
    return Tree(pair_distance, tuple(sorted(ids)), node_cost, amounts, inside_cost=inside_cost)


def _parent(first: Tree, second: Tree, pair_distance: int, count: int) -> Tree:
    largest = min(len(first.inside_cost) + len(second.inside_cost) - 2, count)
    inside_cost = [INFINITE_COST] * (largest + 1)
    for number, cost in enumerate(first.inside_cost):
        pairs_cost = 0
        others = second.inside_cost[: largest - number + 1]
        for size, other_cost in enumerate(others, start=number):
            inside_cost[size] = min(inside_cost[size], cost + other_cost + pairs_cost)
            pairs_cost += pair_distance * number
    return Tree(pair_distance, children=(first, second), inside_cost=inside_cost)


def compute_outside_costs(tree: Tree, outside_cost: list[int]) -> None:
    """Set `outside_cost` of the tree, and compute it for all subtrees."""
    tree.outside_cost = outside_cost
    if tree.children is None:
        return
    for child, sibling in (tree.children, tree.children[::-1]):
        lowest = [INFINITE_COST] * len(child.inside_cost)
        for number in range(len(child.inside_cost)):
            pairs_cost = 0
            for cost, outside in zip(sibling.inside_cost, outside_cost[number:], strict=False):
                lowest[number] = min(lowest[number], cost + outside + pairs_cost)
                pairs_cost += tree.pair_distance * number
        compute_outside_costs(child, lowest)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The need, and what the nodes that are still missing in a partial set can add to it."""

    count: int
    """Number of nodes of the whole set."""
    need: Amounts
    upper: tuple[Amounts, ...]
    """By number of nodes missing: amounts that are enough, whatever nodes follow."""
    lower: tuple[Amounts, ...]
    """By number of nodes missing: amounts without which no nodes can meet the need."""
    is_exact: bool
    """Whether the number of partial sets is unlimited, because there are few nodes."""

    @classmethod
    def of(cls, amounts: Sequence[Amounts], need: Amounts, count: int) -> "Bounds":
        """Compute the bounds from the amounts of all nodes; there are at least `count` nodes.

        In each dimension, the `count` smallest amounts together must be less than the need.
        """

        def missing(*, largest_first: bool) -> tuple[Amounts, ...]:
            columns: list[list[int]] = []
            for d, needed in enumerate(need):
                ordered = sorted((node[d] for node in amounts), reverse=largest_first)[:count]
                columns.append([needed - added for added in accumulate(ordered, initial=0)])
            return tuple(tuple(column[n] for column in columns) for n in range(count + 1))

        upper, lower = missing(largest_first=False), missing(largest_first=True)
        return cls(count, need, upper, lower, is_exact=len(amounts) <= EXACT_NODES)


class DynamicProgram:
    """One pass over a tree, which makes no set that costs more than `limit` in the end."""

    def __init__(self, bounds: Bounds, limit: int) -> None:
        self.lowest_pruned_cost = INFINITE_COST
        """The lowest cost above the limit that was met."""
        self._bounds = bounds
        self._limit = limit
        self._joins = 0
        self._empty = PartialSet(0, 0, (0,) * len(bounds.need))

    def partial_sets(self, tree: Tree) -> PartialSets:
        """Return the partial sets of a tree that may be part of the best whole set."""
        totals = map(int.__add__, tree.inside_cost[1:], tree.outside_cost[1:])
        lowest = min(totals, default=INFINITE_COST)
        if lowest > self._limit:
            self.lowest_pruned_cost = min(self.lowest_pruned_cost, lowest)
            return [[self._empty]]
        if tree.children is None:
            return self._lowest_ids(tree)
        found = self._join_children(tree, *tree.children)
        return [self.pareto_prune(sets, size) if sets else sets for size, sets in enumerate(found)]

    def _lowest_ids(self, leaf: Tree) -> PartialSets:
        """Return one partial set per number of nodes, that with the lowest ids."""
        found: PartialSets = [[self._empty]]
        mask = 0
        for number, cost in enumerate(leaf.inside_cost[1:], start=1):
            mask |= 1 << leaf.ids[number - 1]
            found.append([PartialSet(cost, mask, tuple(held * number for held in leaf.amounts))])
        return found

    def _join_children(self, tree: Tree, first: Tree, second: Tree) -> PartialSets:
        """Return the partial sets of two children joined, by number of nodes."""
        found: PartialSets = [[] for _ in tree.inside_cost]
        first_sets, second_sets = self.partial_sets(first), self.partial_sets(second)
        for number, sets in enumerate(first_sets):
            if not sets:
                continue
            for other_number, others in enumerate(second_sets[: len(found) - number]):
                size = number + other_number
                pairs_cost = tree.pair_distance * number * other_number
                outside_cost = tree.outside_cost[size] + pairs_cost
                inside_cost = first.inside_cost[number] + second.inside_cost[other_number]
                lowest = inside_cost + outside_cost
                if lowest > self._limit:
                    self.lowest_pruned_cost = min(self.lowest_pruned_cost, lowest)
                elif others:
                    found[size] += self._join(sets, others, pairs_cost, outside_cost)
        return found

    def _join(
        self, sets: list[PartialSet], others: list[PartialSet], pairs_cost: int, outside_cost: int
    ) -> list[PartialSet]:
        """Join each partial set with each other one, within the limit.

        `pairs_cost` is the cost of the pairs across; `outside_cost` is the lowest cost of the
        nodes outside the parent, with the pairs across included.
        """
        self._joins += len(sets) * len(others)
        joined: list[PartialSet] = []
        for cost, mask, amounts in sets:
            for other_cost, other_mask, other_amounts in others:
                both_cost = cost + other_cost
                if both_cost + outside_cost > self._limit:
                    # Both lists are sorted by cost: the following sets cost more.
                    self.lowest_pruned_cost = min(self.lowest_pruned_cost, both_cost + outside_cost)
                    break
                both = tuple(map(int.__add__, amounts, other_amounts))
                joined.append(PartialSet(both_cost + pairs_cost, mask | other_mask, both))
        return joined

    def pareto_prune(self, sets: list[PartialSet], number: int) -> list[PartialSet]:
        """Return those of some partial sets of `number` nodes that may be part of the best set."""
        sets = self._prune_by_bounds(sets, self._bounds.count - number)
        kept: list[PartialSet] = []
        for each in sorted(sets):
            if not any(all(map(int.__ge__, other.amounts, each.amounts)) for other in kept):
                kept.append(each)
        many = self._joins >= MAX_JOINS
        limit = MAX_PARTIAL_SETS_AFTER_MAX_JOINS if many else MAX_PARTIAL_SETS
        if len(kept) <= limit or self._bounds.is_exact:
            return kept
        # The sets that hold most of each dimension always stay: they can meet the need.
        dimensions = range(len(self._bounds.need))
        richest = [max(kept, key=lambda each: each.amounts[d]) for d in dimensions]
        return sorted({*kept[:limit], *richest})

    def _prune_by_bounds(self, sets: list[PartialSet], missing: int) -> list[PartialSet]:
        """Drop sets that cannot meet the need, and cut amounts to what is enough."""
        upper, lower = self._bounds.upper[missing], self._bounds.lower[missing]
        return [
            PartialSet(cost, mask, tuple(map(min, amounts, upper)))
            for cost, mask, amounts in sets
            if all(map(int.__ge__, amounts, lower))
        ]
