"""Partitions on all small machines: every combination of one or two partitions."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, permutations, product

import pytest

from nri_numamem.numa import Exclusive, Layout, NodeSet, Partition, lay_out
from tests.numa.test_partitions import ALL, nodes, preferences


def all_partitions(name: str, ids: range) -> Iterator[Partition]:
    """Yield a partition with each set of nodes, also of some that do not exist, and each count."""
    subsets = chain.from_iterable(combinations([*ids, 9], n) for n in range(1, len(ids) + 2))
    kinds = [Partition(name, NodeSet(subset)) for subset in subsets]
    kinds += [Partition(name, count=n) for n in range(1, len(ids) + 2)]
    for each, exclusive, confine in product(kinds, Exclusive, (False, True)):
        yield replace(each, namespaces=(name,), exclusive=exclusive, confine=confine)


def check(layout: Layout, usable: NodeSet, memory_nodes: NodeSet) -> None:
    entries, rest = layout.entries, layout.rest
    exclusive, closed = NodeSet(), NodeSet()
    for each in entries:
        partition = each.partition
        assert bool(each.nodes) is not bool(each.problem)
        assert each.nodes in (NodeSet(), partition.nodes) or len(each.nodes) == partition.count
        assert each.nodes.issubset(usable)
        if partition.nodes:
            assert (each.nodes == partition.nodes) is partition.nodes.issubset(usable)
        if partition.exclusive is not Exclusive.NONE:
            exclusive |= each.nodes
        if partition.exclusive is Exclusive.ALL:
            closed |= each.nodes
    assert all(a.nodes.isdisjoint(b.nodes) for a, b in combinations(entries, 2))
    assert rest.nodes == usable - exclusive
    assert bool(rest.nodes) is not bool(rest.problem)
    for a, b in permutations((*entries, rest), 2):
        is_nested = a.nodes.issubset(b.nodes) or b.nodes.issubset(a.nodes)
        assert is_nested or a.nodes.isdisjoint(b.nodes)
    for namespace in ("a", "b", "other", "kube-system"):
        found = layout.of_pod(namespace, {})
        given = layout.unpinned_nodes_of(namespace, found)
        assert given.issubset(memory_nodes)
        assert given != memory_nodes or given == found.nodes
        if namespace == "kube-system":
            assert not given
        elif found.partition.confine and found.nodes:
            assert given == found.nodes
        elif memory_nodes - (closed - found.nodes):
            left = given or memory_nodes
            assert left == memory_nodes - (closed - found.nodes)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_brute_force(count: int) -> None:
    """All combinations of one or two partitions on a machine."""
    ids, usable = range(count), NodeSet(range(count))
    order = preferences(count)
    firsts = list(all_partitions("a", ids))
    # With four nodes, a third of the second partitions: the others differ in nothing new.
    seconds = list(all_partitions("b", ids))[:: 1 if count < 4 else 7]
    for first in firsts:
        check(lay_out((first,), usable, usable, order), usable, usable)
        for second in seconds:
            if not first.nodes or not second.nodes or first.nodes.isdisjoint(second.nodes):
                found = lay_out((first, second), usable, usable, order)
                check(found, usable, usable)
                assert found == lay_out((first, second), usable, usable, order)


def test_brute_force_with_an_excluded_node() -> None:
    usable, memory_nodes = nodes("0,2"), nodes("0-2")
    for first, second in product(all_partitions("a", range(3)), all_partitions("b", range(3))):
        if first.nodes.isdisjoint(second.nodes):
            found = lay_out((first, second), usable, memory_nodes, preferences(3))
            check(found, usable, memory_nodes)


def test_a_count_takes_the_best_set_by_brute_force() -> None:
    for is_crossed, taken, count in product((False, True), range(4), range(1, 4)):
        order = preferences(is_crossed=is_crossed)
        left = [n for n in range(4) if n != taken]
        best = min((NodeSet(ids) for ids in combinations(left, count)), key=order.rank)
        fixed = Partition("fixed", NodeSet([taken]))
        found = lay_out((Partition("some", count=count), fixed), ALL, ALL, order)
        assert found.entries[0].nodes == best
