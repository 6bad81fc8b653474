"""The difference between the used fractions of memory and CPU requests."""

from fractions import Fraction
from random import Random

import pytest

from nri_numamem.numa import NodeSet, Preferences, Strategy
from nri_numamem.numa.balance import Balance

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
