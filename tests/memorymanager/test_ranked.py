from itertools import combinations
from random import Random

import pytest

from nri_numamem.memorymanager import Distances, NodeSet, Preferences
from nri_numamem.memorymanager.ranked import MOST_NODES, ranked_sets


@pytest.mark.parametrize("nodes", [1, 2, 5, MOST_NODES])
def test_all_sets_are_there_in_the_order_of_their_rank(nodes: int) -> None:
    random = Random(nodes)
    ids = sorted(random.sample(range(20), nodes))
    rows = {a: {b: random.randint(9, 12) for b in ids} for a in ids}
    distances = Distances(rows)
    preferences = Preferences(distances)
    for size in range(nodes + 1):
        ranked = distances.ranked(size, NodeSet(ids))
        want = sorted(map(NodeSet, combinations(ids, size)), key=preferences.rank)
        assert [NodeSet.from_mask(mask) for mask, _ in ranked] == want
        assert [NodeSet(members) for _, members in ranked] == want


def test_none_of_a_large_machine() -> None:
    assert ranked_sets(range(MOST_NODES + 1), lambda *_: 40) == ()
    large = Distances.of_rows([[10] * 9 for _ in range(9)])
    assert large.ranked(1, NodeSet([0])) == ()


def test_none_where_nodes_have_no_row() -> None:
    distances = Distances.of_rows([[10, 20], [20, 10]])
    assert len(distances.ranked(1, NodeSet([0]))) == 2
    assert distances.ranked(1, NodeSet([0, 7])) == ()
    assert distances.ranked(3, NodeSet([0, 1])) == ()
    assert Distances().ranked(0, NodeSet()) == ((0, ()),)
