"""The closest k nodes of a module when any would hold enough: the usual case, and a quick one.

Inside a module whose parts are equally far apart, wherever one goes down, only the best set of
each size counts: by cost, then by lower ids. Those of two parts are joined by their numbers of
nodes. The need is looked at by who asks (``closest``).
"""

from collections.abc import Mapping
from typing import TypeAlias

from nri_numamem.memorymanager.modules import Module
from nri_numamem.memorymanager.tree import OUT_OF_REACH

Nearest: TypeAlias = list[tuple[int, int]]
"""Index: number of nodes; the cost of the closest so many, and their mask."""


def nearest(module: Module, costs: Mapping[int, int], count: int) -> Nearest:
    """Return the closest sets of up to `count` of the module's nodes that have a cost.

    The cost is what a node costs by itself. The parts of every module in it must be equally far
    apart.
    """
    apart = module.apart or 0
    alike: dict[int, list[int]] = {}
    found: Nearest = [(0, 0)]
    for part in module.parts or (module,):
        if part.parts:
            found = _joined(found, nearest(part, costs, count), apart, count)
        elif part.node_ids[0] in costs:
            node_id = part.node_ids[0]
            alike.setdefault(costs[node_id], []).append(node_id)
    for cost, node_ids in alike.items():
        found = _joined(found, _run(sorted(node_ids)[:count], cost, apart), apart, count)
    return found


def _run(node_ids: list[int], cost: int, apart: int) -> Nearest:
    """Return the lowest 0, 1, 2, ... of nodes that only differ by their ids."""
    run: Nearest = [(0, 0)]
    for number, node_id in enumerate(node_ids):
        before, mask = run[-1]
        run.append((before + cost + number * apart, mask | 1 << node_id))
    return run


def _joined(first: Nearest, second: Nearest, apart: int, count: int) -> Nearest:
    if len(first) == 1 or len(second) == 1:
        return second if len(first) == 1 else first
    most = min(len(first) + len(second) - 2, count)
    best: Nearest = [(OUT_OF_REACH, 0)] * (most + 1)
    for taken, (cost, mask) in enumerate(first):
        for number, (more, other) in enumerate(second[: most - taken + 1], start=taken):
            total = cost + more + apart * taken * (number - taken)
            if total <= best[number][0]:
                best[number] = min(best[number], (total, mask | other))
    return best
