from nri_numamem.memorymanager.modules import Module
from nri_numamem.memorymanager.tree import OUT_OF_REACH, Amounts, Tree, look_beyond, tree_of
from nri_numamem.memorymanager.ways import FEW_WAYS, MOST_WAYS, Gathering, Horizon, Way

UNBOUNDED = OUT_OF_REACH


def tree(amounts: dict[int, Amounts], apart: int, count: int) -> Tree:
    """Return a tree of nodes that cost 10 each and are equally far apart."""
    module = Module(tuple(amounts), tuple(Module((n,)) for n in amounts), apart)
    made = tree_of(module, dict.fromkeys(amounts, 10), amounts, count)
    assert made is not None
    look_beyond(made, [OUT_OF_REACH] * count + [0])
    return made


def horizon(need: Amounts, count: int, amounts: list[Amounts], *, is_exact: bool = True) -> Horizon:
    made = Horizon.of(amounts, need, count)
    return Horizon(made.count, made.need, made.enough, made.floor, is_exact)


def test_what_the_nodes_to_come_can_add() -> None:
    made = Horizon.of([(1, 5), (9, 5), (5, 5)], (10, 12), 2)
    assert made.enough == ((10, 12), (9, 7), (4, 2))
    assert made.floor == ((10, 12), (1, 7), (-4, 2))
    assert made.is_exact
    assert not Horizon.of([()] * 11, (), 2).is_exact


def test_a_leaf_gives_the_lowest_ids() -> None:
    same = tree({2: (3,), 5: (3,), 7: (3,)}, 4, 2)
    ways = Gathering(horizon((6,), 2, [(3,)] * 3), UNBOUNDED).ways(same)
    assert ways == [[(0, 0, (0,))], [(10, 0b100, (3,))], [(24, 0b100100, (6,))]]


def test_joining_adds_the_distance_of_every_pair() -> None:
    amounts: dict[int, Amounts] = {0: (1,), 1: (2,), 4: (2,)}
    ways = Gathering(horizon((4,), 2, list(amounts.values())), UNBOUNDED).ways(tree(amounts, 7, 2))
    assert ways[2] == [(27, 0b10010, (4,))]


def test_without_a_need_one_way_is_kept() -> None:
    gathering = Gathering(horizon((), 2, [()] * 2), UNBOUNDED)
    assert gathering.keep([(5, 2, ()), (5, 1, ())], 1) == [(5, 1, ())]


def test_a_costlier_way_stays_only_if_it_holds_more() -> None:
    # With one node more than 9 cannot come, less than 1 neither: 0 is too little, 9 is enough.
    gathering = Gathering(horizon((10,), 2, [(1,), (5,), (9,)]), UNBOUNDED)
    ways: list[Way] = [(5, 1, (4,)), (6, 2, (3,)), (6, 4, (8,)), (7, 8, (8,)), (4, 16, (0,))]
    assert gathering.keep(ways, 1) == [(5, 1, (4,)), (6, 4, (8,))]
    assert gathering.keep([(5, 1, (90,)), (6, 2, (100,))], 1) == [(5, 1, (9,))]


def test_of_equal_holdings_the_cheapest_stays() -> None:
    gathering = Gathering(horizon((3,), 1, [(0,), (9,)]), UNBOUNDED)
    assert gathering.keep([(5, 2, (1,)), (5, 1, (1,)), (9, 4, (1,))], 0) == [(5, 1, (1,))]


def test_many_ways_are_kept_among_few_nodes_only() -> None:
    ways: list[Way] = [(cost, 1 << cost, (cost,)) for cost in range(1, 60)]
    amounts: list[Amounts] = [(0,), (1000,)]
    few = Gathering(horizon((1000,), 2, amounts), UNBOUNDED)
    assert few.keep(ways, 1) == ways
    many = Gathering(horizon((1000,), 2, amounts, is_exact=False), UNBOUNDED)
    kept = many.keep(ways, 1)
    assert len(kept) == MOST_WAYS + 1
    assert kept[0] == ways[0]
    assert kept[-1] == ways[-1], "the richest stays"


def test_after_many_pairs_few_ways_are_kept() -> None:
    """Every node holds something else, and much of everything is needed."""
    amounts: dict[int, Amounts] = {n: (n * n % 61, (n * 37) % 53) for n in range(40)}
    need = (sum(sorted(a for a, _ in amounts.values())[-12:]) // 2, 250)
    bounded = Gathering(horizon(need, 12, list(amounts.values()), is_exact=False), UNBOUNDED)
    found = bounded.ways(tree(amounts, 20, 12))
    assert max(map(len, found)) <= FEW_WAYS + len(need)
    [cost, mask, held] = found[12][0]
    assert (cost, mask.bit_count()) == (12 * 10 + 66 * 20, 12)
    assert held >= need


def test_ways_beyond_the_bound_are_not_made_but_remembered() -> None:
    module = Module(
        (0, 1, 2, 3),
        (Module((0, 1), (Module((0,)), Module((1,))), 2), Module((2,)), Module((3,))),
        9,
    )
    amounts: dict[int, Amounts] = {0: (1,), 1: (2,), 2: (3,), 3: (4,)}
    made = tree_of(module, dict.fromkeys(amounts, 10), amounts, 2)
    assert made is not None
    look_beyond(made, [OUT_OF_REACH] * 2 + [0])
    tight = Gathering(horizon((4,), 2, list(amounts.values())), 22)
    assert tight.ways(made)[2] == [], "0-1 cost 22 and hold 3"
    assert tight.kept_out == 29
    wide = Gathering(horizon((4,), 2, list(amounts.values())), 29)
    assert wide.ways(made)[2] == [(29, 0b101, (4,))]
    assert wide.kept_out == OUT_OF_REACH
