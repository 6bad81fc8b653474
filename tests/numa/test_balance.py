"""The difference between the used fractions of memory and CPU requests."""

import pytest

from nri_numamem.numa import NodeSet
from nri_numamem.numa.balance import Balance

BALANCE = Balance({0: 4000, 1: 4000}, {0: 1000}, 1000).with_memory(
    {0: 100, 1: 200}, {0: 100, 1: 50}, 25
)


@pytest.mark.parametrize(
    ("nodes", "difference"),
    [
        ((0,), 250_000),  # memory 25/100, CPUs 2/4
        ((1,), 625_000),  # memory 175/200, CPUs 1/4
        ((0, 1), 333_333),  # memory 175/300, CPUs 2/8
    ],
)
def test_the_container_counts(nodes: tuple[int, ...], difference: int) -> None:
    assert BALANCE.difference(nodes) == difference


def test_requests_above_the_cpus_of_a_node_count_as_imbalance() -> None:
    full = Balance({0: 1000}, {0: 5000}).with_memory({0: 10}, {0: 0}, 0)
    assert full.difference((0,)) == 4_000_000


def test_a_node_without_cpus_or_memory_has_nothing_in_use() -> None:
    assert Balance({}, {5: 7}).with_memory({5: 100}, {5: 50}, 0).difference((5,)) == 500_000
    assert Balance({5: 1000}, {5: 100}).difference((5,)) == 100_000


def test_whether_cpu_requests_exceed_the_cpus_of_a_set() -> None:
    balance = Balance({0: 4000, 1: 4000}, {0: 3000, 1: 2000}, 1500)
    assert balance.exceeds_cpus(NodeSet({0}))
    assert not balance.exceeds_cpus(NodeSet({1}))
    assert not balance.exceeds_cpus(NodeSet({0, 1}))
    assert balance.exceeds_cpus(NodeSet({7}))
    assert not Balance().exceeds_cpus(NodeSet({0}))
