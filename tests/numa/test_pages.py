"""Resident memory by kind of page."""

from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages, summed

PAGES = Pages(anonymous={0: 1, 1: 2}, shared={1: 10}, hugetlb={2: 100}, cache={3: 1000})


def test_sums_of_kinds() -> None:
    assert PAGES.private == {0: 1, 1: 2, 2: 100}
    assert PAGES.own == {0: 1, 1: 12, 2: 100}
    assert PAGES.charged_bytes == 13


def test_page_cache_is_never_remote() -> None:
    assert PAGES.remote(NodeSet([1])) == {0: 1, 2: 100}
    assert PAGES.remote(NodeSet([0, 1, 2])) == {}
    assert Pages(anonymous={5: 0}).remote(NodeSet([1])) == {}


def test_sums_are_in_the_order_of_the_nodes() -> None:
    assert list(summed(({3: 1, 0: 2}, {1: 1, 3: 4})).items()) == [(0, 2), (1, 1), (3, 5)]
    assert summed(()) == {}
