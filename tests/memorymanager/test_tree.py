"""The tree of nodes, and what it knows of the cost of any choice, against trying all of them."""

from itertools import combinations
from random import Random

import pytest

from nri_numamem.memorymanager.modules import Module, module_of
from nri_numamem.memorymanager.tree import OUT_OF_REACH, Tree, look_beyond, tree_of

ROWS = [
    [10 if a == b else 11 if a // 2 == b // 2 else 20 if a // 4 == b // 4 else 32 for b in range(8)]
    for a in range(8)
]


def pair(a: int, b: int) -> int:
    return 2 * ROWS[a][b]


def ids_of(tree: Tree) -> tuple[int, ...]:
    return tree.ids if tree.forks is None else ids_of(tree.forks[0]) + ids_of(tree.forks[1])


def all_trees(tree: Tree) -> list[Tree]:
    return [tree] + [t for fork in tree.forks or () for t in all_trees(fork)]


def cost(nodes: tuple[int, ...], costs: dict[int, int]) -> int:
    return sum(costs[n] for n in nodes) + sum(pair(a, b) for a, b in combinations(nodes, 2))


@pytest.mark.parametrize("seed", range(10))
def test_lowest_costs_inside_and_beyond(seed: int) -> None:
    random = Random(seed)
    ids = sorted(random.sample(range(8), random.randint(2, 8)))
    costs = {n: random.choice((10, 10, 14)) for n in ids}
    amounts = {n: (random.randint(1, 2),) for n in ids}
    count = random.randint(1, len(ids))
    root = tree_of(module_of(range(8), pair), costs, amounts, count)
    assert root is not None
    assert sorted(ids_of(root)) == ids
    look_beyond(root, [OUT_OF_REACH] * count + [0])
    for tree in all_trees(root):
        inside = set(ids_of(tree))
        for taken, least in enumerate(tree.least):
            assert least == min(cost(c, costs) for c in combinations(sorted(inside), taken))
            whole = [
                cost(nodes, costs)
                for nodes in combinations(ids, count)
                if len(inside & set(nodes)) == taken
            ]
            lowest = min(whole, default=OUT_OF_REACH)
            assert min(least + tree.beyond[taken], OUT_OF_REACH) == lowest


def test_nodes_that_are_alike_are_one_leaf() -> None:
    module = module_of(range(4), lambda _a, _b: 20)
    tree = tree_of(module, dict.fromkeys(range(4), 10), {3: (1,), 0: (1,), 2: (1,)}, 2)
    assert tree is not None
    assert (tree.ids, tree.cost, tree.held, tree.apart, tree.forks) == (
        (0, 2, 3),
        10,
        (1,),
        20,
        None,
    )
    assert tree.least == [0, 10, 40]


def test_a_module_without_any_of_the_nodes_is_no_tree() -> None:
    module = module_of(range(8), pair)
    assert tree_of(module, {}, {}, 3) is None
    assert tree_of(Module((7,)), {3: 10}, {3: ()}, 1) is None
    only = tree_of(module, {5: 10}, {5: ()}, 1)
    assert only is not None
    assert only.ids == (5,)
