"""The closest k nodes that cover a need: the best set of a given size.

The cost of a set is a sum over its pairs. Along the modules of the distances (``modules``) it
falls apart: what each part's nodes cost among themselves, plus, for two parts, their distance
times the numbers of nodes on either side. So for every module it is enough to know the best
ways to take 0, 1, 2, ... nodes from it, from the sockets up to the machine. Mostly the nodes that
are closest whatever they hold (``nearest``) hold enough; where they do not, ways that hold more
stay beside the closest (``tree``, ``ways``). Where no two parts are alike, the numbers are tried
out (``branches``).

Amounts that differ by less than a hundredth count as equal at first, as the larger one: nodes of
one machine differ by some kilobytes, and rarely matters it. If the best set then covers with its
real amounts, no other can be better.

The result is exact among up to 10 nodes. Among more it is exact but for `MOST_WAYS`, `MOST_PAIRS`
(odd amounts) and `MOST_LOOKS` (distances like noise): beyond these limits, which keep a search at
some milliseconds, a closer set of the same size may exist.
"""

from collections.abc import Mapping
from dataclasses import replace

from nri_numamem.memorymanager.branches import Part, best_of_parts
from nri_numamem.memorymanager.distances import Distances
from nri_numamem.memorymanager.modules import Module, Structure
from nri_numamem.memorymanager.nearest import nearest
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.tree import OUT_OF_REACH, Amounts, Tree, look_beyond, tree_of
from nri_numamem.memorymanager.ways import Gathering, Horizon, Way, Ways
from nri_numamem.values import valueclass

# The bound on the cost starts at the lowest that there could be, and grows by 1/16, 1/4, 1, ... of
# it: a pass within a narrow bound is cheap, and one far beyond the best set is not.
FIRST_STEP = 64
STEP_GROWTH = 4


@valueclass(frozen=True, slots=True)
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
        held = [self.amounts[node_id] for node_id in nodes]
        return all(sum([h[d] for h in held]) >= need for d, need in enumerate(self.need))


def closest(problem: Problem) -> NodeSet | None:
    """Return the best set, without the fixed nodes; None when none was found."""
    if problem.count == 0 or len(problem.amounts) < problem.count:
        return NodeSet() if problem.count == 0 and problem.covers(NodeSet()) else None
    problem = _without_slack(problem)
    if problem.need:
        # Rounding up may make slack anew.
        found = _search(_without_slack(_rounded_up(problem)))
        if found is None or problem.covers(found):
            return found
    return _search(problem)


def _without_slack(problem: Problem) -> Problem:
    """Leave out the dimensions in which any `count` nodes hold enough.

    In such a one ``ways`` would cut amounts on either side of a fork to less than the need.
    """
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
    distances = problem.distances
    if distances is None:
        module = Module(tuple(ids), tuple(Module((n,)) for n in ids), apart=0)
        costs = dict.fromkeys(ids, 0)
    else:
        structure = distances.structure_with((*ids, *problem.fixed))
        module = structure.module
        costs = _costs(problem, distances, structure)
    if module.apart is not None:
        found = NodeSet.from_mask(nearest(module, costs, problem.count)[problem.count][1])
        if problem.covers(found):
            return found
    horizon = Horizon.of(tuple(problem.amounts.values()), problem.need, problem.count)
    if module.apart is None:
        parts = _parts(module, costs, problem, horizon)
        best = best_of_parts(parts, (distances or Distances()).pair, horizon)
    else:
        tree = tree_of(module, costs, problem.amounts, problem.count)
        best = None if tree is None else _best(tree, horizon)
    return None if best is None else NodeSet.from_mask(best[1])


def _costs(problem: Problem, distances: Distances, structure: Structure) -> dict[int, int]:
    """Return what each node costs by itself, for being remote, and towards the fixed ones."""
    return {
        n: distances.between(n, n)
        + structure.remoteness[n] * (problem.count - 1)
        + sum(distances.pair(n, other) for other in problem.fixed)
        for n in problem.amounts
    }


def _best(tree: Tree, horizon: Horizon) -> Way | None:
    """Return the best way to take all that is asked for from a tree.

    First only the ways that could cost as little as if there were no need are looked at; as long
    as none of them covers, the bound is raised.
    """
    count = horizon.count
    look_beyond(tree, [OUT_OF_REACH] * count + [0])
    bound = tree.least[count]
    step = bound // FIRST_STEP + 1
    while bound < OUT_OF_REACH:
        gathering = Gathering(horizon, bound)
        for way in gathering.ways(tree)[count]:
            if all(map(int.__ge__, way[2], horizon.need)):
                return way
        step *= STEP_GROWTH
        bound = max(gathering.kept_out, bound + step)
    return None


def _parts(
    root: Module, costs: Mapping[int, int], problem: Problem, horizon: Horizon
) -> list[Part]:
    """Return the parts of a module that are differently far apart, with all ways to take nodes."""
    parts: list[Part] = []
    for module in root.parts:
        ways = _ways(module, costs, problem, horizon)
        if len(ways) > 1:
            parts.append((module.node_ids[0], ways))
    return parts


def _ways(module: Module, costs: Mapping[int, int], problem: Problem, horizon: Horizon) -> Ways:
    if not problem.need:
        return [[(cost, mask, ())] for cost, mask in nearest(module, costs, problem.count)]
    tree = tree_of(module, costs, problem.amounts, problem.count)
    if tree is None:
        return []
    look_beyond(tree, [0] * len(tree.least))
    return Gathering(horizon, OUT_OF_REACH).ways(tree)
