"""The merge by hand; the kubelet's own tables and the oracle cover the rest."""

from itertools import permutations, product
from random import Random

import pytest

from nri_numamem.memorymanager import Hint
from nri_numamem.memorymanager.hints import ANYWHERE, MergedHints
from nri_numamem.numa import Distances, NodeSet, Preferences
from nri_numamem.topologymanager.merge import (
    ProviderHints,
    TopologyPolicy,
    merge_hints,
    merged_hints_of,
)

BEST_EFFORT, SINGLE = TopologyPolicy.BEST_EFFORT, TopologyPolicy.SINGLE_NUMA_NODE
LOWEST = Preferences(prefer_closest=False)
ALL = NodeSet([0, 1, 2, 3])


def yes(*ids: int) -> Hint:
    return Hint(NodeSet(ids), preferred=True)


def no(*ids: int) -> Hint:
    return Hint(NodeSet(ids), preferred=False)


def merged(*lists: list[Hint], policy: TopologyPolicy = BEST_EFFORT) -> tuple[Hint, bool]:
    return merge_hints([{"r": hints} for hints in lists], ALL, policy, LOWEST)


def test_policy_none_merges_nothing() -> None:
    assert merged([yes(0)], policy=TopologyPolicy.NONE) == (Hint(None, preferred=False), True)


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        (BEST_EFFORT, (yes(0, 1, 2, 3), True)),
        (TopologyPolicy.RESTRICTED, (yes(0, 1, 2, 3), True)),
        (SINGLE, (Hint(None, preferred=True), True)),
    ],
)
@pytest.mark.parametrize("providers", [(), (None,), ({},), ({"r": None},), (None, {"r": None})])
def test_no_provider_has_a_preference(
    providers: tuple[ProviderHints, ...], policy: TopologyPolicy, want: tuple[Hint, bool]
) -> None:
    assert merge_hints(providers, ALL, policy, LOWEST) == want


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        (BEST_EFFORT, (no(0, 1, 2, 3), True)),
        (TopologyPolicy.RESTRICTED, (no(0, 1, 2, 3), False)),
        (SINGLE, (Hint(None, preferred=False), False)),
    ],
)
def test_impossible(policy: TopologyPolicy, want: tuple[Hint, bool]) -> None:
    assert merged([], policy=policy) == want
    assert merge_hints([{"r": []}], ALL, policy, LOWEST) == want


@pytest.mark.parametrize("seed", range(10))
def test_full_lists_have_the_intersections_of_their_product(seed: int) -> None:
    random = Random(seed)
    lists: list[list[Hint]] = []
    for _ in range(3):
        masks = random.sample(range(1, 16), random.randint(5, 15))
        hints = [Hint(NodeSet.from_mask(mask), random.random() < 0.5) for mask in masks]
        lists.append(hints + [Hint(None, random.random() < 0.5)] * random.randint(0, 1))
    want: dict[int, bool] = {}
    for combination in product(*lists):
        sets = [hint.affinity.mask for hint in combination if hint.affinity is not None]
        joint = ANYWHERE
        for mask in sets:
            joint &= mask
        have_common_node = len(set(sets)) <= 1 and all(hint.preferred for hint in combination)
        want[joint] = want.get(joint, False) or have_common_node
    max_of_min_sizes = max(min(len(h.affinity) for h in hints if h.affinity) for hints in lists)
    offers = merged_hints_of([{"r": hints} for hints in lists], BEST_EFFORT)
    assert offers == MergedHints(want, max_of_min_sizes)


def test_hints_that_share_no_node() -> None:
    assert merged([yes(0)], [yes(1)]) == (no(0, 1, 2, 3), True)


def test_a_merged_hint_is_preferred_only_if_all_affinities_are_equal() -> None:
    assert merged([yes(0), yes(0, 1)], [yes(0, 1)])[0] == yes(0, 1)
    assert merged([yes(0)], [yes(0, 1)])[0] == no(0)
    assert merged([yes(0)], [Hint(None, preferred=True)])[0] == yes(0)
    assert merged([yes(0)], [Hint(None, preferred=False)])[0] == no(0)


def test_among_hints_that_are_not_preferred_the_size_closest_to_max_of_min_sizes_wins() -> None:
    assert merged([no(0), no(2, 3)], [no(2, 3), no(0, 1, 2)])[0] == no(2, 3)
    # Nothing of two nodes: the most below.
    assert merged([no(0)], [no(0, 1)])[0] == no(0)
    # Nothing of at most one node: the fewest above.
    assert merged([Hint(None, preferred=False), no(0)], [no(1, 2), no(1, 2, 3)])[0] == no(1, 2)


def test_single_numa_node_admits_only_preferred_hints_of_one_node() -> None:
    hints = [no(0), yes(2), yes(0, 1)]
    assert merged(hints, policy=SINGLE) == (yes(2), True)
    assert merged([yes(0, 1)], policy=SINGLE) == (
        Hint(None, preferred=False),
        False,
    )
    one = merge_hints([{"r": [yes(0)]}], NodeSet([0]), SINGLE, LOWEST)
    assert one == (Hint(None, preferred=True), True)


def test_distance_decides_except_for_single_numa_node() -> None:
    rows = [[10, 30, 20, 30], [30, 10, 30, 30], [20, 30, 10, 30], [30, 30, 30, 10]]
    closest = Preferences(Distances.of_rows(rows))
    hints = [{"r": [yes(0, 1), yes(0, 2)]}]
    assert merge_hints(hints, ALL, TopologyPolicy.RESTRICTED, closest)[0] == yes(0, 2)
    # A node's distance to itself counts too, so nodes can differ by themselves.
    odd = Preferences(Distances.of_rows([[11, 20], [20, 10]]))
    single = [{"r": [yes(0), yes(1)]}]
    assert merge_hints(single, NodeSet([0, 1, 2]), BEST_EFFORT, odd)[0] == yes(1)
    assert merge_hints(single, NodeSet([0, 1, 2]), SINGLE, odd)[0] == yes(0)


def test_nodes_that_the_machine_lacks_are_dropped() -> None:
    assert merged([yes(3, 9)])[0] == yes(3)


def test_order_changes_nothing() -> None:
    lists = [[no(0, 1), yes(1)], [yes(1, 2), no(0), no(1, 2, 3)], [yes(0, 1, 2), no(3)]]
    results = {merged(*order) for order in permutations(lists)}
    results |= {merged(*(hints[::-1] for hints in lists))}
    assert len(results) == 1


def test_the_merged_hints_of_other_providers() -> None:
    lists = [{"a": [yes(0, 1), no(1)], "b": [yes(0, 1), Hint(None, preferred=True)]}]
    assert merged_hints_of(lists, BEST_EFFORT) == MergedHints({0b11: True, 0b10: False}, 2)
    assert merged_hints_of(lists, SINGLE) == MergedHints({}, 0)
    assert merged_hints_of([None], TopologyPolicy.RESTRICTED) == MergedHints({ANYWHERE: True}, 0)


# Policies

_PREFERRED = Hint(NodeSet([0, 1]), preferred=True)
_OTHER = Hint(NodeSet([0, 1]), preferred=False)
_SINGLE = Hint(NodeSet([1]), preferred=True)
_ANYWHERE = Hint(None, preferred=True)


@pytest.mark.parametrize(
    ("policy", "admits_all", "admits_several_nodes"),
    [
        (TopologyPolicy.NONE, True, (True, True)),
        (TopologyPolicy.BEST_EFFORT, True, (True, True)),
        (TopologyPolicy.RESTRICTED, False, (True, False)),
        (TopologyPolicy.SINGLE_NUMA_NODE, False, (False, False)),
    ],
)
def test_what_a_policy_admits(
    policy: TopologyPolicy, *, admits_all: bool, admits_several_nodes: tuple[bool, bool]
) -> None:
    assert policy.admits_all is admits_all
    assert policy.admits(_PREFERRED)
    assert policy.admits(_OTHER) is admits_all
    found = (policy.admits_several_nodes(_PREFERRED), policy.admits_several_nodes(_OTHER))
    assert found == admits_several_nodes


def test_single_numa_node_ignores_hints_for_several_nodes() -> None:
    lists = [[_PREFERRED, _SINGLE], [_OTHER], [_ANYWHERE]]
    assert TopologyPolicy.SINGLE_NUMA_NODE.select(lists) == [[_SINGLE], [], [_ANYWHERE]]
    assert TopologyPolicy.RESTRICTED.select(lists) == lists
