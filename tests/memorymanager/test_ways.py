from nri_numamem.memorymanager.ways import MOST_WAYS, Horizon, Way, join, run


def test_a_run_takes_the_lowest_ids() -> None:
    ways = run((2, 5, 7), 10, (3,), 4, 2)
    assert ways == [[(0, 0, (0,))], [(10, 0b100, (3,))], [(24, 0b100100, (6,))]]


def test_joining_adds_the_distance_of_every_pair() -> None:
    horizon = Horizon.of((), (), 2)
    first, second = run((0, 1), 10, (), 2, 2), run((4,), 10, (), 0, 2)
    assert join(first, second, 7, horizon) == [
        [(0, 0, ())],
        [(10, 0b1, ())],
        [(22, 0b11, ())],
    ]
    assert join(first, second, 1, horizon)[2] == [(21, 0b10001, ())]


def test_a_costlier_way_stays_only_if_it_holds_more() -> None:
    horizon = Horizon.of([(1,), (5,), (9,)], (100,), 0)
    assert horizon.keep([], 0) == []
    horizon = Horizon(2, (10,), ((0, 1, 6),), ((0, 9, 14),))
    ways: list[Way] = [(5, 1, (4,)), (6, 2, (3,)), (6, 4, (8,)), (7, 8, (8,)), (4, 16, (0,))]
    # With one node more than 9 cannot come, less than 1 neither: 0 is too little, 9 is enough.
    assert horizon.keep(ways, 1) == [(5, 1, (4,)), (6, 4, (8,))]
    assert horizon.keep([(5, 1, (90,)), (6, 2, (100,))], 1) == [(5, 1, (9,))]


def test_of_equal_holdings_the_cheapest_stays() -> None:
    horizon = Horizon(1, (3,), ((0, 1),), ((0, 9),))
    assert horizon.keep([(5, 2, (1,)), (5, 1, (1,)), (9, 4, (1,))], 0) == [(5, 1, (1,))]


def test_there_is_a_bound_on_ways_that_keeps_the_richest() -> None:
    horizon = Horizon(2, (1000,), ((0, 0, 0),), ((0, 1000, 1000),))
    ways: list[Way] = [(cost, 1 << cost, (cost,)) for cost in range(1, 60)]
    kept = horizon.keep(ways, 1)
    assert len(kept) == MOST_WAYS + 1
    assert kept[0] == ways[0]
    assert kept[-1] == ways[-1]
