"""The closest k nodes that cover a need, and which method finds them on which machine.

====================================  ========================================================
machine                               method
====================================  ========================================================
up to 8 nodes                         enumeration (``Distances.ranked_sets``, called by ``cover``)
no distances                          the lowest ids, by the methods below with equal distances
no prime module                       closest set without the need (``closest_sets``); if it
                                      does not cover, dynamic programme (``partial_sets``)
the root is prime (ring, mesh)        dynamic programme in each child, then branch and bound
                                      (``branch_and_bound``)
====================================  ========================================================

Amounts that differ by less than a hundredth are rounded up to the larger one at first: node sizes
differ by a few kilobytes, which rarely matters. If the best set covers the need with its real
amounts too, no other set can be better; otherwise the search is repeated with the real amounts.

The result is exact among up to 10 nodes. Among more it is exact within the limits
`MAX_PARTIAL_SETS` and `MAX_JOINS` (irregular amounts) and `MAX_LOOKUPS` (random distances), which
keep a search at some milliseconds: beyond them a closer set of the same size may exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from nri_numamem.numa.closest.branch_and_bound import Child, best_set_of_children
from nri_numamem.numa.closest.hierarchy import Decomposition, Module
from nri_numamem.numa.closest.partial_sets import (
    INFINITE_COST,
    Amounts,
    Bounds,
    DynamicProgram,
    PartialSet,
    PartialSets,
    Tree,
    build_tree,
    compute_outside_costs,
)
from nri_numamem.numa.distances import Distances
from nri_numamem.numa.idset import NodeSet

# The limit on the cost starts at the lowest cost without the need, and grows by 1/16, 1/4, 1, ...
# of it: a pass with a tight limit is fast, a pass with a limit far above the best set is not.
FIRST_STEP_DIVISOR = 64
STEP_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Problem:
    """Choose `count` nodes that hold the need, as close as possible."""

    amounts: Mapping[int, Amounts]
    """Node id -> what it holds in each dimension."""
    need: Amounts
    count: int
    distances: Distances | None
    """None: all nodes are equally close, and the lowest ids are best."""
    fixed: NodeSet
    """Nodes that are chosen already; the distances to them count too."""

    def covers(self, nodes: NodeSet) -> bool:
        """Return whether the nodes hold the need."""
        held = [self.amounts[node_id] for node_id in nodes]
        return all(sum([h[d] for h in held]) >= need for d, need in enumerate(self.need))


def find_closest(problem: Problem) -> NodeSet | None:
    """Return the best set, without the fixed nodes; None if none was found."""
    if problem.count == 0 or len(problem.amounts) < problem.count:
        return NodeSet() if problem.count == 0 and problem.covers(NodeSet()) else None
    problem = _without_met_dimensions(problem)
    if problem.need:
        # Rounding up may create further dimensions that are always met.
        found = _search(_without_met_dimensions(_round_up(problem)))
        if found is None or problem.covers(found):
            return found
    return _search(problem)


def _without_met_dimensions(problem: Problem) -> Problem:
    """Remove the dimensions in which any `count` nodes hold enough, as ``Bounds`` demands."""
    tight = [
        d
        for d, need in enumerate(problem.need)
        if sum(sorted(held[d] for held in problem.amounts.values())[: problem.count]) < need
    ]
    amounts = {n: tuple(held[d] for d in tight) for n, held in problem.amounts.items()}
    return replace(problem, amounts=amounts, need=tuple(problem.need[d] for d in tight))


def _round_up(problem: Problem) -> Problem:
    """Replace each amount by the largest one that exceeds it by less than a hundredth."""
    columns: list[dict[int, int]] = []
    for d in range(len(problem.need)):
        levels: dict[int, int] = {}
        level = 0
        for amount in sorted({held[d] for held in problem.amounts.values()}, reverse=True):
            if amount * 100 <= level * 99 or not levels:
                level = amount
            levels[amount] = level
        columns.append(levels)
    amounts = {
        n: tuple(levels[amount] for levels, amount in zip(columns, held, strict=True))
        for n, held in problem.amounts.items()
    }
    return replace(problem, amounts=amounts)


def _search(problem: Problem) -> NodeSet | None:
    ids = sorted(problem.amounts)
    distances = problem.distances
    if distances is None:
        root = Module(tuple(ids), tuple(Module((n,)) for n in ids), pair_distance=0)
        node_costs = dict.fromkeys(ids, 0)
    else:
        decomposition = distances.decomposition_with((*ids, *problem.fixed))
        root = decomposition.root
        node_costs = _node_costs(problem, distances, decomposition)
    if not root.is_prime:
        _, mask = closest_sets(root, node_costs, problem.count)[problem.count]
        found = NodeSet.from_mask(mask)
        if problem.covers(found):
            return found
    bounds = Bounds.of(tuple(problem.amounts.values()), problem.need, problem.count)
    if root.is_prime:
        children = _children(root, node_costs, problem, bounds)
        best = best_set_of_children(children, (distances or Distances()).pair_distance, bounds)
    else:
        tree = build_tree(root, node_costs, problem.amounts, problem.count)
        best = None if tree is None else _best_of_tree(tree, bounds)
    return None if best is None else NodeSet.from_mask(best.mask)


def _node_costs(
    problem: Problem, distances: Distances, decomposition: Decomposition
) -> dict[int, int]:
    """Return the cost of each node by itself, for its remoteness, and to the fixed nodes."""
    return {
        n: distances.between(n, n)
        + decomposition.remoteness[n] * (problem.count - 1)
        + sum(distances.pair_distance(n, other) for other in problem.fixed)
        for n in problem.amounts
    }


def _best_of_tree(tree: Tree, bounds: Bounds) -> PartialSet | None:
    """Return the best set of `bounds.count` nodes of a tree.

    The first pass makes only sets that cost as little as the closest set without the need. While
    no set covers the need, the next pass has a higher limit.
    """
    count = bounds.count
    compute_outside_costs(tree, [INFINITE_COST] * count + [0])
    limit = tree.inside_cost[count]
    step = limit // FIRST_STEP_DIVISOR + 1
    while limit < INFINITE_COST:
        program = DynamicProgram(bounds, limit)
        for found in program.partial_sets(tree)[count]:
            if all(map(int.__ge__, found.amounts, bounds.need)):
                return found
        step *= STEP_GROWTH
        limit = max(program.lowest_pruned_cost, limit + step)
    return None


def _children(
    root: Module, node_costs: Mapping[int, int], problem: Problem, bounds: Bounds
) -> list[Child]:
    """Return the children of a prime module that have nodes to choose, with partial sets."""
    children: list[Child] = []
    for module in root.children:
        sets = _partial_sets(module, node_costs, problem, bounds)
        if len(sets) > 1:
            children.append((module.node_ids[0], sets))
    return children


def _partial_sets(
    module: Module, node_costs: Mapping[int, int], problem: Problem, bounds: Bounds
) -> PartialSets:
    if not problem.need:
        closest = closest_sets(module, node_costs, problem.count)
        return [[PartialSet(cost, mask, ())] for cost, mask in closest]
    tree = build_tree(module, node_costs, problem.amounts, problem.count)
    if tree is None:
        return []
    compute_outside_costs(tree, [0] * len(tree.inside_cost))
    return DynamicProgram(bounds, INFINITE_COST).partial_sets(tree)


ClosestSets: TypeAlias = list[tuple[int, int]]
"""Index: number of nodes. The cost of the closest set of that size, and its mask."""


def closest_sets(module: Module, node_costs: Mapping[int, int], count: int) -> ClosestSets:
    """Return the closest sets of up to `count` of the module's nodes, whatever these hold.

    This is the usual case, and the fastest: in a module without prime modules only the best set of
    each size matters, the one with the lowest cost, then the lowest ids. The best sets of two
    children are joined by their numbers of nodes. Nodes without a cost are left out.

    `node_costs` maps a node id to the cost of the node by itself. No module in `module` may be
    prime.
    """
    pair_distance = module.pair_distance or 0
    equivalent: dict[int, list[int]] = {}
    found: ClosestSets = [(0, 0)]
    for child in module.children or (module,):
        if child.children:
            found = _join(found, closest_sets(child, node_costs, count), pair_distance, count)
        elif child.node_ids[0] in node_costs:
            node_id = child.node_ids[0]
            equivalent.setdefault(node_costs[node_id], []).append(node_id)
    for node_cost, node_ids in equivalent.items():
        lowest = _lowest_ids(sorted(node_ids)[:count], node_cost, pair_distance)
        found = _join(found, lowest, pair_distance, count)
    return found


def _lowest_ids(node_ids: list[int], node_cost: int, pair_distance: int) -> ClosestSets:
    """Return the sets of the first 0, 1, 2, ... of nodes that differ only by their ids."""
    found: ClosestSets = [(0, 0)]
    for number, node_id in enumerate(node_ids):
        cost, mask = found[-1]
        found.append((cost + node_cost + number * pair_distance, mask | 1 << node_id))
    return found


def _join(first: ClosestSets, second: ClosestSets, pair_distance: int, count: int) -> ClosestSets:
    if len(first) == 1 or len(second) == 1:
        return second if len(first) == 1 else first
    largest = min(len(first) + len(second) - 2, count)
    best: ClosestSets = [(INFINITE_COST, 0)] * (largest + 1)
    for number, (cost, mask) in enumerate(first):
        for size, (other_cost, other_mask) in enumerate(
            second[: largest - number + 1], start=number
        ):
            total = cost + other_cost + pair_distance * number * (size - number)
            if total <= best[size][0]:
                best[size] = min(best[size], (total, mask | other_mask))
    return best
