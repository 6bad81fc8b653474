from dataclasses import replace

import pytest

from nri_numamem.numa import Distances, NodeSet, Preferences, Strategy
from nri_numamem.numa.balance import Balance

DISTANCES = Distances.of_rows([[10, 20, 12], [20, 10, 20], [12, 20, 10]])


def best(preferences: Preferences, *texts: str) -> str:
    return str(min(map(NodeSet.parse, texts), key=preferences.rank))


def test_fewer_nodes_win() -> None:
    assert best(Preferences(DISTANCES, previous_nodes=NodeSet([0, 2])), "0,2", "1") == "1"


def test_previous_nodes_win_over_closer_nodes() -> None:
    assert best(Preferences(DISTANCES, previous_nodes=NodeSet([1, 2])), "0,2", "1-2") == "1-2"


def test_closer_nodes_win_over_lower_ids() -> None:
    assert best(Preferences(DISTANCES), "0-1", "0,2") == "0,2"
    assert best(Preferences(DISTANCES, prefer_closest=False), "0-1", "0,2") == "0-1"
    assert best(Preferences(DISTANCES).without_distances(), "0-1", "0,2") == "0-1"


def test_lower_ids_decide_between_equals() -> None:
    assert best(Preferences(DISTANCES), "1-2", "0-1") == "0-1"


@pytest.mark.parametrize(("local", "expected"), [(10, False), (11, True)])
def test_the_local_distance_can_decide_between_single_nodes(local: int, *, expected: bool) -> None:
    preferences = Preferences(Distances.of_rows([[local, 20], [20, 10]]))
    assert preferences.ranks_single_nodes is expected
    assert best(preferences, "0", "1") == ("1" if expected else "0")
    assert not preferences.without_distances().ranks_single_nodes


FREE = {0: 5, 1: 3, 2: 4}


@pytest.mark.parametrize(
    ("strategy", "single", "group"),
    [(Strategy.LOWEST_IDS, "0", "0-1"), (Strategy.PACK, "1", "1-2"), (Strategy.SPREAD, "0", "0-1")],
)
def test_free_memory_decides_between_equally_close_sets(
    strategy: Strategy, single: str, group: str
) -> None:
    preferences = Preferences(DISTANCES, strategy=strategy).with_free_bytes(FREE)
    assert preferences.ranks_single_nodes is (strategy is not Strategy.LOWEST_IDS)
    assert best(preferences, "0", "1", "2") == single
    assert best(preferences, "0-1", "1-2") == group
    assert best(preferences, "0-1", "0,2", "1-2") == "0,2"  # is closer
    assert best(preferences.with_free_bytes({}), "2", "1") == "1"


def test_previous_nodes_win_over_the_strategy() -> None:
    known = Preferences(DISTANCES, previous_nodes=NodeSet([2]), strategy=Strategy.PACK)
    assert best(known.with_free_bytes(FREE), "1", "2") == "2"


def test_the_difference_between_memory_and_cpus_decides() -> None:
    strategy = Strategy.BALANCED_WITH_CPUS
    assert best(Preferences(strategy=strategy), "1", "0", "2") == "0"
    cpus = Balance(dict.fromkeys(range(3), 1000), {0: 100, 1: 400, 2: 300})
    balance = cpus.with_memory(dict.fromkeys(range(3), 10), FREE, 0)
    assert best(Preferences(strategy=strategy, balance=balance), "0", "1", "2") == "1"


def test_room_for_cpu_requests_precedes_the_strategy() -> None:
    balance = Balance({0: 1000, 1: 2000}, {}, 1500)
    known = Preferences(strategy=Strategy.PACK, free_bytes={0: 1, 1: 2}, balance=balance)
    nodes = [NodeSet({0}), NodeSet({1})]
    assert min(nodes, key=known.rank) == NodeSet({0})
    assert min(nodes, key=replace(known, prefers_cpu_room=True).rank) == NodeSet({1})
    unknown = Preferences(prefers_cpu_room=True)
    assert unknown.ranks_single_nodes
    assert min(nodes, key=unknown.rank) == NodeSet({0})
