"""The largest request that still fits, also compared with the rules for each set of nodes."""

from itertools import combinations
from random import Random
from types import ModuleType

import pytest

from nri_numamem.memorymanager import State, default_state
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.candidates import is_admissible
from nri_numamem.memorymanager.largest import Largest, largest_on_group, largest_on_node
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode

GI = 1 << 30
NOTHING = Largest(0, NodeSet())


def nodes(text: str) -> NodeSet:
    return NodeSet.parse(text)


def test_a_group_and_unassigned_nodes(state: State) -> None:
    assert largest_on_node(state, "memory") == Largest(4, nodes("3"))
    assert largest_on_group(state, "memory") == Largest(12, nodes("3-5"))
    for node in "345":
        state = assign(state, node, "x", nodes(node), {"memory": 2})
    assert largest_on_node(state, "memory") == Largest(3, nodes("0"))
    assert largest_on_group(state, "memory") == Largest(3, nodes("1-2"))


def test_nothing_fits(state: State, worlds: ModuleType) -> None:
    assert largest_on_node(state, "hugepages-2Mi") == NOTHING
    assert largest_on_group(state, "hugepages-2Mi") == NOTHING
    one = worlds.empty_state({0: {"memory": 4}})
    assert largest_on_group(one, "memory") == NOTHING


def test_nodes_without_normal_memory_only_join_others() -> None:
    def machine(zones: str) -> State:
        made = enumerate(zone == "m" for zone in zones)
        return default_state(
            Machine(tuple(NumaNode(n, GI, {}, CpuSet([n]), is_movable_only=m) for n, m in made)), {}
        )

    assert largest_on_node(machine("nm"), "memory") == Largest(GI, nodes("0"))
    assert largest_on_group(machine("nm"), "memory") == Largest(2 * GI, nodes("0-1"))
    assigned = assign(machine("nmm"), "a", "x", nodes("0"), {"memory": GI})
    assert largest_on_group(assigned, "memory") == NOTHING


@pytest.mark.parametrize("seed", range(40))
def test_it_is_what_the_rules_admit(worlds: ModuleType, seed: int) -> None:
    random = Random(seed)
    state: State = worlds.empty_state({n: {"memory": random.randint(1, 9)} for n in range(5)})
    sets = [NodeSet(c) for size in range(1, 6) for c in combinations(range(5), size)]
    for name in "abcd":
        chosen, request = random.choice(sets), {"memory": random.randint(0, 3)}
        if is_admissible(state, name, request, chosen):
            state = assign(state, name, "x", chosen, request)

    def fits(size: int, *, single: bool) -> bool:
        request = {"memory": size}
        among = [one for one in sets if (len(one) == 1) is single]
        return any(is_admissible(state, "new", request, one) for one in among)

    for single, largest in ((True, largest_on_node), (False, largest_on_group)):
        size = largest(state, "memory").size_bytes
        assert size == 0 or fits(size, single=single)
        assert not fits(size + 1, single=single)
