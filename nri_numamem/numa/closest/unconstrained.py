"""The closest k nodes of a module, whatever they hold: the usual case, and the fastest.

In a module without prime modules only the best set of each size matters: the one with the lowest
cost, then the lowest ids. The best sets of two children are joined by their numbers of nodes.
The caller checks whether the result covers the need (``search``).
"""

from collections.abc import Mapping
from typing import TypeAlias

from nri_numamem.numa.closest.hierarchy import Module
from nri_numamem.numa.closest.partial_sets import INFINITE_COST

ClosestSets: TypeAlias = list[tuple[int, int]]
"""Index: number of nodes. The cost of the closest set of that size, and its mask."""


def closest_sets(module: Module, node_costs: Mapping[int, int], count: int) -> ClosestSets:
    """Return the closest sets of up to `count` of the module's nodes that have a cost.

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
