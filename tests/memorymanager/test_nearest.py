from itertools import combinations
from random import Random

import pytest

from nri_numamem.memorymanager.modules import Module, module_of
from nri_numamem.memorymanager.nearest import nearest


@pytest.mark.parametrize("seed", range(10))
def test_brute_force_finds_the_same(seed: int) -> None:
    """Nodes in sockets on boards, some dearer by themselves, some not to be had."""
    random = Random(seed)
    levels = sorted(random.choices(range(20, 60), k=3))

    def pair_cost(a: int, b: int) -> int:
        return levels[0] if a // 2 == b // 2 else levels[1] if a // 4 == b // 4 else levels[2]

    module = module_of(range(10), pair_cost)
    ids = sorted(random.sample(range(10), 8))
    costs = {n: random.choice((10, 10, 14)) for n in ids}
    found = nearest(module, costs, 6)
    assert len(found) == 7
    for count, best in enumerate(found):
        assert best == min(
            (
                sum(costs[n] for n in nodes) + sum(pair_cost(*p) for p in combinations(nodes, 2)),
                sum(1 << n for n in nodes),
            )
            for nodes in combinations(ids, count)
        )


def test_a_single_node_and_none() -> None:
    assert nearest(Module((3,)), {3: 10}, 2) == [(0, 0), (10, 0b1000)]
    assert nearest(Module((3,)), {4: 10}, 2) == [(0, 0)]
    pair = Module((0, 1), (Module((0,)), Module((1,))), 20)
    assert nearest(pair, {}, 2) == [(0, 0)]
    assert nearest(pair, {0: 10, 1: 10}, 1) == [(0, 0), (10, 0b01)]
