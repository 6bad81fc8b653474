"""The closest k nodes that cover a need: the best set of a given size, exactly.

The cost of a set is a sum over its pairs. Along the modules of the distances (``modules``) it
falls apart: what each part's nodes cost among themselves, plus, for two parts, their distance
times the numbers of nodes on either side. So for every module it is enough to know the best
ways to take 0, 1, 2, ... nodes from it (``ways``), from the sockets up to the machine. Where no
two parts are alike, the numbers are tried out (``branches``).

Amounts that differ by less than a hundredth count as equal at first, as the larger one: nodes of
one machine differ by some kilobytes, and rarely matters it. If the best set then covers with its
real amounts, no other can be better. The result is exact but for `MOST_WAYS` (odd amounts) and
`MOST_STEPS` (distances like noise): beyond these it covers, but a closer set may exist.

Sets of up to a dozen of 64 nodes take a few milliseconds. At worst (some twenty nodes, several
kinds of pools on three levels of distances, or no levels at all) it is some tenths of a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nri_numamem.memorymanager.branches import best_of_parts
from nri_numamem.memorymanager.distances import Distances
from nri_numamem.memorymanager.modules import Module
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.ways import Amounts, Horizon, Way, Ways, join, run


@dataclass(frozen=True, slots=True)
class Problem:
    """Take `count` of the nodes such that they hold the need, as close as possible."""

    amounts: Mapping[int, Amounts]
    """Node id -> what it holds in each dimension."""
    need: Amounts
    count: int
    distances: Distances | None
    """None: all nodes are equally close, and the lowest ids win."""
    fixed: NodeSet
    """Nodes that are in the set anyway; to be close to them counts too."""

    def covers(self, nodes: NodeSet) -> bool:
        """Tell whether the nodes hold the need."""
        return all(
            sum(self.amounts[node_id][d] for node_id in nodes) >= need
            for d, need in enumerate(self.need)
        )


def closest(problem: Problem) -> NodeSet | None:
    """Return the best set, without the fixed nodes; None when none was found."""
    if problem.count == 0:
        return NodeSet() if problem.covers(NodeSet()) else None
    problem = _without_slack(problem)
    found = _search(_rounded_up(problem))
    if found is None or problem.covers(found):
        return found
    return _search(problem)


def _without_slack(problem: Problem) -> Problem:
    """Leave out the dimensions in which any `count` nodes hold enough."""
    tight = [
        d
        for d, need in enumerate(problem.need)
        if sum(sorted(held[d] for held in problem.amounts.values())[: problem.count]) < need
    ]
    amounts = {n: tuple(held[d] for d in tight) for n, held in problem.amounts.items()}
    return replace(problem, amounts=amounts, need=tuple(problem.need[d] for d in tight))


def _rounded_up(problem: Problem) -> Problem:
    """Replace amounts by the largest of those that are less than a hundredth smaller."""
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
    horizon = Horizon.of(tuple(problem.amounts.values()), problem.need, problem.count)
    if problem.distances is None:
        root = Module(tuple(ids), tuple(Module((n,)) for n in ids), apart=0)
    else:
        root = problem.distances.module_with((*ids, *problem.fixed))
    search = _Search(problem, horizon, _costs(problem))
    best = search.best(root) if root.apart is not None else search.best_over_parts(root)
    return None if best is None else NodeSet.from_mask(best[1])


def _costs(problem: Problem) -> dict[int, int]:
    """Return what each node costs by itself and towards the fixed ones."""
    distances = problem.distances
    if distances is None:
        return dict.fromkeys(problem.amounts, 0)
    return {
        n: distances.between(n, n) + sum(distances.pair(n, other) for other in problem.fixed)
        for n in problem.amounts
    }


@dataclass(frozen=True, slots=True)
class _Search:
    """One run over the modules."""

    problem: Problem
    horizon: Horizon
    costs: Mapping[int, int]

    def ways(self, module: Module) -> Ways:
        """Return the best ways to take nodes from a module whose parts are equally apart."""
        apart = module.apart or 0
        ways = run((), 0, tuple(0 for _ in self.problem.need), apart, 0)
        alike: dict[tuple[int, Amounts], list[int]] = {}
        for part in module.parts or (module,):
            if part.parts:
                ways = join(ways, self.ways(part), apart, self.horizon)
                continue
            [node_id] = part.node_ids
            if node_id in self.costs:
                key = (self.costs[node_id], self.problem.amounts[node_id])
                alike.setdefault(key, []).append(node_id)
        for (cost, held), ids in alike.items():
            nodes = run(sorted(ids), cost, held, apart, self.problem.count)
            ways = join(ways, nodes, apart, self.horizon)
        return ways

    def best(self, module: Module) -> Way | None:
        """Return the best way to take all that is asked for from a module with structure."""
        ways = self.ways(module)
        count = self.horizon.count
        return min(ways[count], default=None) if count < len(ways) else None

    def best_over_parts(self, module: Module) -> Way | None:
        """Return the best way to take all from parts that are differently far apart."""
        found = [(part.node_ids[0], self.ways(part)) for part in module.parts]
        pair_cost = (self.problem.distances or Distances()).pair
        return best_of_parts([part for part in found if len(part[1]) > 1], pair_cost, self.horizon)
