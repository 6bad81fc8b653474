from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from nri_numamem.numa import Distances, NodeSet, PodStrategies, Preferences, Strategy
from nri_numamem.numa.preferences import Balance

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


SOME = PodStrategies((Strategy.PACK, Strategy.SPREAD), ("shop",))


def test_an_allowed_strategy() -> None:
    assert SOME.obstacle("shop", "pack") == ""
    assert PodStrategies((Strategy.PACK,)).obstacle("any", "pack") == ""


@pytest.mark.parametrize(
    ("strategies", "namespace", "text", "obstacle"),
    [
        (
            PodStrategies(),
            "shop",
            "pack",
            "podPlacementStrategies.allowed is empty, so annotations choose no strategy",
        ),
        (
            SOME,
            "lab",
            "pack",
            "podPlacementStrategies.namespaces does not list the pod's namespace",
        ),
        (
            SOME,
            "shop",
            "Pack",
            "it is none of lowest-ids, pack, spread, balanced-with-cpus",
        ),
        (SOME, "shop", "lowest-ids", "podPlacementStrategies.allowed has only pack, spread"),
    ],
)
def test_obstacles(strategies: PodStrategies, namespace: str, text: str, obstacle: str) -> None:
    assert strategies.obstacle(namespace, text) == obstacle


BALANCE = Balance({0: 4000, 1: 4000}, {0: 1000}, 1000).with_memory(
    {0: 100, 1: 200}, {0: 100, 1: 50}, 25
)


def scaled(difference: Fraction | int) -> int:
    return int(difference * 2**200)


@pytest.mark.parametrize(
    ("nodes", "difference"),
    [
        ((0,), Fraction(1, 4)),  # memory 25/100, CPUs 2/4
        ((1,), Fraction(5, 8)),  # memory 175/200, CPUs 1/4
        ((0, 1), Fraction(1, 3)),  # memory 175/300, CPUs 2/8
    ],
)
def test_the_container_counts(nodes: tuple[int, ...], difference: Fraction) -> None:
    assert BALANCE.difference(nodes) == scaled(difference)


def test_requests_above_the_cpus_of_a_node_count_as_imbalance() -> None:
    full = Balance({0: 1000}, {0: 5000}).with_memory({0: 10}, {0: 0}, 0)
    assert full.difference((0,)) == scaled(4)


def test_a_node_without_cpus_or_memory_has_nothing_in_use() -> None:
    assert Balance({}, {5: 7}).with_memory({5: 100}, {5: 50}, 0).difference((5,)) == scaled(
        Fraction(1, 2)
    )
    assert Balance({5: 1000}, {5: 100}).difference((5,)) == scaled(Fraction(1, 10))


def test_whether_cpu_requests_exceed_the_cpus_of_a_set() -> None:
    balance = Balance({0: 4000, 1: 4000}, {0: 3000, 1: 2000}, 1500)
    assert balance.exceeds_cpus(NodeSet({0}))
    assert not balance.exceeds_cpus(NodeSet({1}))
    assert not balance.exceeds_cpus(NodeSet({0, 1}))
    assert balance.exceeds_cpus(NodeSet({7}))
    assert not Balance().exceeds_cpus(NodeSet({0}))


def test_equal_differences_tie() -> None:
    """Two thirds and one, and one third and two thirds, differ by a third."""
    cpus, memory = dict.fromkeys((0, 1), 3000), dict.fromkeys((0, 1), 3)
    balance = Balance(cpus, {0: 3000, 1: 2000}).with_memory(memory, {0: 1, 1: 2}, 0)
    preferences = Preferences(strategy=Strategy.BALANCED_WITH_CPUS, balance=balance)
    assert balance.difference([0]) == balance.difference([1])
    assert preferences.rank(NodeSet([0])) < preferences.rank(NodeSet([1]))


def test_sets_compare_as_their_exact_differences() -> None:
    random, ties = Random(21), 0
    for _ in range(3000):
        unit = random.choice([1, 4096, 10**9 + 7])
        cpus = {node: 1000 * random.choice([0, 1, 3, 7, 96]) for node in range(4)}
        requested = {node: random.randrange(8) * cpus[node] // 7 for node in cpus}
        memory = {node: unit * random.choice([0, 3, 7, 10]) for node in cpus}
        free = {node: random.randrange(8) * memory[node] // 7 for node in cpus}
        balance = Balance(cpus, requested, random.choice([0, 1, 1500]))
        balance = balance.with_memory(memory, free, unit * random.randrange(3))
        sets = [random.sample(range(4), random.randrange(1, 4)) for _ in range(2)]
        first, second = (exact_difference(balance, nodes) for nodes in sets)
        found = [balance.difference(nodes) for nodes in sets]
        assert (found[0] < found[1], found[0] == found[1]) == (first < second, first == second)
        ties += first == second and sorted(sets[0]) != sorted(sets[1])
    assert ties > 20


def test_differences_beyond_a_millionth_count() -> None:
    cpus, memory = dict.fromkeys((0, 1), 96_000), dict.fromkeys((0, 1), 1 << 40)
    free = {0: 1 << 39, 1: (1 << 39) + 4096}
    balance = Balance(cpus, {}).with_memory(memory, free, 0)
    assert balance.difference([1]) < balance.difference([0])


def exact_difference(balance: Balance, nodes: list[int]) -> Fraction:
    memory = sum(balance.memory_bytes[node] for node in nodes)
    free = sum(balance.free_bytes[node] for node in nodes)
    cpus = sum(balance.cpu_millicores[node] for node in nodes)
    requested = sum(balance.requested_millicores[node] for node in nodes)
    used = Fraction(memory - free + balance.added_bytes, memory) if memory else Fraction(0)
    busy = Fraction(requested + balance.added_millicores, cpus) if cpus else Fraction(0)
    return abs(used - busy)
