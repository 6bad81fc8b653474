"""The tree of nodes, its lowest costs, and the partial sets of one pass over it."""

from itertools import combinations
from random import Random

import pytest

from nri_numamem.numa.closest.hierarchy import Module, root_module
from nri_numamem.numa.closest.partial_sets import (
    INFINITE_COST,
    MAX_PARTIAL_SETS,
    MAX_PARTIAL_SETS_AFTER_MAX_JOINS,
    Amounts,
    Bounds,
    DynamicProgram,
    PartialSet,
    Tree,
    build_tree,
    compute_outside_costs,
)

ROWS = [
    [10 if a == b else 11 if a // 2 == b // 2 else 20 if a // 4 == b // 4 else 32 for b in range(8)]
    for a in range(8)
]


def pair_distance(a: int, b: int) -> int:
    return 2 * ROWS[a][b]


def ids_of(tree: Tree) -> tuple[int, ...]:
    children = tree.children
    return tree.ids if children is None else ids_of(children[0]) + ids_of(children[1])


def subtrees(tree: Tree) -> list[Tree]:
    return [tree] + [t for child in tree.children or () for t in subtrees(child)]


def cost_of(nodes: tuple[int, ...], node_costs: dict[int, int]) -> int:
    pairs = combinations(nodes, 2)
    return sum(node_costs[n] for n in nodes) + sum(pair_distance(a, b) for a, b in pairs)


def flat_tree(amounts: dict[int, Amounts], distance: int, count: int) -> Tree:
    """Return a tree of nodes that cost 10 each and have one pair distance."""
    module = Module(tuple(amounts), tuple(Module((n,)) for n in amounts), distance)
    tree = build_tree(module, dict.fromkeys(amounts, 10), amounts, count)
    assert tree is not None
    compute_outside_costs(tree, [INFINITE_COST] * count + [0])
    return tree


def bounds_of(
    need: Amounts, count: int, amounts: list[Amounts], *, is_exact: bool = True
) -> Bounds:
    bounds = Bounds.of(amounts, need, count)
    return Bounds(bounds.count, bounds.need, bounds.upper, bounds.lower, is_exact)


@pytest.mark.parametrize("seed", range(10))
def test_inside_and_outside_costs_against_enumeration(seed: int) -> None:
    random = Random(seed)
    ids = sorted(random.sample(range(8), random.randint(2, 8)))
    node_costs = {n: random.choice((10, 10, 14)) for n in ids}
    amounts = {n: (random.randint(1, 2),) for n in ids}
    count = random.randint(1, len(ids))
    root = build_tree(root_module(range(8), pair_distance), node_costs, amounts, count)
    assert root is not None
    assert sorted(ids_of(root)) == ids
    compute_outside_costs(root, [INFINITE_COST] * count + [0])
    for tree in subtrees(root):
        inside = set(ids_of(tree))
        for number, inside_cost in enumerate(tree.inside_cost):
            chosen = combinations(sorted(inside), number)
            assert inside_cost == min(cost_of(nodes, node_costs) for nodes in chosen)
            whole = [
                cost_of(nodes, node_costs)
                for nodes in combinations(ids, count)
                if len(inside & set(nodes)) == number
            ]
            lowest = min(whole, default=INFINITE_COST)
            assert min(inside_cost + tree.outside_cost[number], INFINITE_COST) == lowest


def test_equivalent_nodes_are_one_leaf() -> None:
    module = root_module(range(4), lambda _a, _b: 20)
    leaf = build_tree(module, dict.fromkeys(range(4), 10), {3: (1,), 0: (1,), 2: (1,)}, 2)
    assert leaf == Tree(20, ids=(0, 2, 3), node_cost=10, amounts=(1,), inside_cost=[0, 10, 40])


def test_nodes_without_amounts_are_not_in_the_tree() -> None:
    module = root_module(range(8), pair_distance)
    assert build_tree(module, {}, {}, 3) is None
    assert build_tree(Module((7,)), {3: 10}, {3: ()}, 1) is None
    only = build_tree(module, {5: 10}, {5: ()}, 1)
    assert only is not None
    assert only.ids == (5,)


def test_bounds_of_the_missing_nodes() -> None:
    bounds = Bounds.of([(1, 5), (9, 5), (5, 5)], (10, 12), 2)
    assert bounds.upper == ((10, 12), (9, 7), (4, 2))
    assert bounds.lower == ((10, 12), (1, 7), (-4, 2))
    assert bounds.is_exact
    assert not Bounds.of([()] * 11, (), 2).is_exact


def test_a_leaf_has_one_partial_set_per_size_with_the_lowest_ids() -> None:
    leaf = flat_tree({2: (3,), 5: (3,), 7: (3,)}, 4, 2)
    found = DynamicProgram(bounds_of((6,), 2, [(3,)] * 3), INFINITE_COST).partial_sets(leaf)
    assert found == [[(0, 0, (0,))], [(10, 0b100, (3,))], [(24, 0b100100, (6,))]]


def test_joined_sets_cost_the_distance_of_every_pair() -> None:
    amounts: dict[int, Amounts] = {0: (1,), 1: (2,), 4: (2,)}
    program = DynamicProgram(bounds_of((4,), 2, list(amounts.values())), INFINITE_COST)
    assert program.partial_sets(flat_tree(amounts, 7, 2))[2] == [(27, 0b10010, (4,))]


def test_without_a_need_one_partial_set_remains() -> None:
    program = DynamicProgram(bounds_of((), 2, [()] * 2), INFINITE_COST)
    assert program.pareto_prune([PartialSet(5, 2, ()), PartialSet(5, 1, ())], 1) == [(5, 1, ())]


def test_a_costlier_set_remains_only_if_it_holds_more() -> None:
    # One more node adds 1 to 9 to reach 10: less than 1 is too little, and 9 is enough.
    program = DynamicProgram(bounds_of((10,), 2, [(1,), (5,), (9,)]), INFINITE_COST)
    sets = [(5, 1, (4,)), (6, 2, (3,)), (6, 4, (8,)), (7, 8, (8,)), (4, 16, (0,))]
    assert program.pareto_prune([PartialSet(*each) for each in sets], 1) == [sets[0], sets[2]]
    enough = [PartialSet(5, 1, (90,)), PartialSet(6, 2, (100,))]
    assert program.pareto_prune(enough, 1) == [(5, 1, (9,))]


def test_of_equal_amounts_the_cheapest_set_remains() -> None:
    program = DynamicProgram(bounds_of((3,), 1, [(0,), (9,)]), INFINITE_COST)
    sets = [PartialSet(5, 2, (1,)), PartialSet(5, 1, (1,)), PartialSet(9, 4, (1,))]
    assert program.pareto_prune(sets, 0) == [(5, 1, (1,))]


def test_the_number_of_partial_sets_is_limited_among_many_nodes() -> None:
    sets = [PartialSet(cost, 1 << cost, (cost,)) for cost in range(1, 60)]
    amounts: list[Amounts] = [(0,), (1000,)]
    few = DynamicProgram(bounds_of((1000,), 2, amounts), INFINITE_COST)
    assert few.pareto_prune(sets, 1) == sets
    many = DynamicProgram(bounds_of((1000,), 2, amounts, is_exact=False), INFINITE_COST)
    kept = many.pareto_prune(sets, 1)
    assert len(kept) == MAX_PARTIAL_SETS + 1
    assert kept[0] == sets[0]
    assert kept[-1] == sets[-1], "the set that holds most remains"


def test_the_limit_is_lower_after_many_joins() -> None:
    """Every node holds another amount, and much of everything is needed."""
    amounts: dict[int, Amounts] = {n: (n * n % 61, (n * 37) % 53) for n in range(40)}
    need = (sum(sorted(a for a, _ in amounts.values())[-12:]) // 2, 250)
    bounds = bounds_of(need, 12, list(amounts.values()), is_exact=False)
    found = DynamicProgram(bounds, INFINITE_COST).partial_sets(flat_tree(amounts, 20, 12))
    assert max(map(len, found)) <= MAX_PARTIAL_SETS_AFTER_MAX_JOINS + len(need)
    best = found[12][0]
    assert (best.cost, best.mask.bit_count()) == (12 * 10 + 66 * 20, 12)
    assert best.amounts >= need


def test_sets_above_the_limit_are_pruned_and_the_lowest_cost_is_recorded() -> None:
    module = Module(
        (0, 1, 2, 3),
        (Module((0, 1), (Module((0,)), Module((1,))), 2), Module((2,)), Module((3,))),
        9,
    )
    amounts: dict[int, Amounts] = {0: (1,), 1: (2,), 2: (3,), 3: (4,)}
    tree = build_tree(module, dict.fromkeys(amounts, 10), amounts, 2)
    assert tree is not None
    compute_outside_costs(tree, [INFINITE_COST] * 2 + [0])
    bounds = bounds_of((4,), 2, list(amounts.values()))
    tight = DynamicProgram(bounds, 22)
    assert tight.partial_sets(tree)[2] == [], "0-1 cost 22 and hold 3"
    assert tight.lowest_pruned_cost == 29
    wide = DynamicProgram(bounds, 29)
    assert wide.partial_sets(tree)[2] == [(29, 0b101, (4,))]
    assert wide.lowest_pruned_cost == INFINITE_COST


def test_a_join_stops_at_the_first_set_above_the_limit() -> None:
    """Of two sockets, each with a light and a heavy node, only the light ones fit the limit."""
    sockets = tuple(
        Module((n, n + 1), (Module((n,)), Module((n + 1,))), pair_distance=2) for n in (0, 2)
    )
    amounts: dict[int, Amounts] = {0: (1,), 1: (5,), 2: (1,), 3: (5,)}
    node_costs = {0: 10, 1: 13, 2: 10, 3: 13}
    tree = build_tree(Module((0, 1, 2, 3), sockets, 1), node_costs, amounts, 2)
    assert tree is not None
    compute_outside_costs(tree, [INFINITE_COST] * 2 + [0])
    bounds = bounds_of((6,), 2, list(amounts.values()))
    tight = DynamicProgram(bounds, 21)
    assert tight.partial_sets(tree)[2] == []
    assert tight.lowest_pruned_cost == 24
    wide = DynamicProgram(bounds, 24)
    assert wide.partial_sets(tree)[2] == [(24, 0b0110, (6,))]
