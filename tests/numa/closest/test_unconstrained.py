from itertools import combinations
from random import Random

import pytest

from nri_numamem.numa.closest.hierarchy import Module, root_module
from nri_numamem.numa.closest.unconstrained import closest_sets


@pytest.mark.parametrize("seed", range(10))
def test_closest_sets_of_each_size_against_enumeration(seed: int) -> None:
    """Nodes in sockets on boards; some have a higher cost of their own, two are no choice."""
    random = Random(seed)
    levels = sorted(random.choices(range(20, 60), k=3))

    def pair_distance(a: int, b: int) -> int:
        return levels[0] if a // 2 == b // 2 else levels[1] if a // 4 == b // 4 else levels[2]

    root = root_module(range(10), pair_distance)
    ids = sorted(random.sample(range(10), 8))
    node_costs = {n: random.choice((10, 10, 14)) for n in ids}
    found = closest_sets(root, node_costs, 6)
    assert len(found) == 7
    for count, best in enumerate(found):
        assert best == min(
            (
                sum(node_costs[n] for n in nodes)
                + sum(pair_distance(*pair) for pair in combinations(nodes, 2)),
                sum(1 << n for n in nodes),
            )
            for nodes in combinations(ids, count)
        )


def test_single_nodes_and_nodes_without_a_cost() -> None:
    assert closest_sets(Module((3,)), {3: 10}, 2) == [(0, 0), (10, 0b1000)]
    assert closest_sets(Module((3,)), {4: 10}, 2) == [(0, 0)]
    pair = Module((0, 1), (Module((0,)), Module((1,))), 20)
    assert closest_sets(pair, {}, 2) == [(0, 0)]
    assert closest_sets(pair, {0: 10, 1: 10}, 1) == [(0, 0), (10, 0b01)]
