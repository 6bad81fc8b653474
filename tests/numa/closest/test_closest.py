"""The example in the docstring of the package nri_numamem.numa.closest, with the same numbers."""

from itertools import combinations

from nri_numamem.numa import Distances, NodeSet, Preferences
from nri_numamem.numa.closest.cover import Cover
from nri_numamem.numa.closest.hierarchy import Module
from nri_numamem.numa.closest.partial_sets import (
    INFINITE_COST,
    Bounds,
    DynamicProgram,
    build_tree,
    compute_outside_costs,
)
from nri_numamem.numa.closest.search import Problem, closest_sets, find_closest

DISTANCES = Distances.of_rows(
    [[10, 12, 21, 21], [12, 10, 21, 21], [21, 21, 10, 12], [21, 21, 12, 10]]
)
FREE = {0: (2,), 1: (6,), 2: (4,), 3: (5,)}
NEED = (10,)
COVER = Cover(FREE, NEED)
SOCKETS = (
    Module((0, 1), (Module((0,)), Module((1,))), 24),
    Module((2, 3), (Module((2,)), Module((3,))), 24),
)
NODE_COSTS = dict.fromkeys(FREE, 10)


def test_step_1_the_smallest_size() -> None:
    assert COVER.lower_bound() == COVER.smallest_size() == 2


def test_step_2_enumeration() -> None:
    sets = [ids for _, ids in DISTANCES.ranked_sets(2, NodeSet(FREE))]
    assert sets == [(0, 1), (2, 3), (0, 2), (1, 2), (0, 3), (1, 3)]
    assert [DISTANCES.spread(ids) for ids in sets] == [44, 44, 62, 62, 62, 62]
    assert [sum(FREE[n][0] for n in ids) for ids in sets] == [8, 9, 6, 10, 7, 11]
    assert COVER.best(2, Preferences(DISTANCES)) == NodeSet([1, 2])


def test_step_3_modular_decomposition() -> None:
    assert DISTANCES.decomposition is not None
    assert DISTANCES.decomposition.root == Module((0, 1, 2, 3), SOCKETS, 42)


def test_step_4_without_the_need() -> None:
    root = Module((0, 1, 2, 3), SOCKETS, 42)
    assert closest_sets(root, NODE_COSTS, 2)[2] == (44, 0b0011)


def test_step_5_dynamic_programme() -> None:
    bounds = Bounds.of(tuple(FREE.values()), NEED, 2)
    assert (bounds.lower[1], bounds.upper[1]) == ((4,), (8,))
    tree = build_tree(Module((0, 1, 2, 3), SOCKETS, 42), NODE_COSTS, FREE, 2)
    assert tree is not None
    assert tree.children is not None
    compute_outside_costs(tree, [INFINITE_COST] * 2 + [0])
    assert tree.inside_cost[2] == 44
    first_pass = DynamicProgram(bounds, 44)
    assert first_pass.partial_sets(tree)[2] == []
    assert first_pass.lowest_pruned_cost == 62
    second_pass = DynamicProgram(bounds, 62)
    assert [second_pass.partial_sets(socket)[1] for socket in tree.children] == [
        [(10, 0b0010, (6,))],
        [(10, 0b0100, (4,)), (10, 0b1000, (5,))],
    ]
    assert second_pass.partial_sets(tree)[2][0] == (62, 0b0110, (10,))
    assert find_closest(Problem(FREE, NEED, 2, DISTANCES, NodeSet())) == NodeSet([1, 2])


def test_no_set_of_two_nodes_is_closer() -> None:
    covering = [ids for ids in combinations(FREE, 2) if COVER.covers(ids)]
    assert covering == [(1, 2), (1, 3)]
