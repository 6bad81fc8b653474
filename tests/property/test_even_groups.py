"""Even groups by brute force: all sets of a size on small random machines."""

from itertools import combinations
from random import Random

import pytest

from nri_numamem.memorymanager import (
    Request,
    State,
    check_accounting,
    check_groups,
    mark_reusable,
    remove_container,
)
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.blocks import PAGE_BYTES, even_parts
from nri_numamem.memorymanager.candidates import crosses_groups
from nri_numamem.memorymanager.even_groups import best_even_group
from nri_numamem.numa import Distances, NodeSet, Preferences
from tests.property import worlds

HUGE = "hugepages-2Mi"
UNITS = {"memory": PAGE_BYTES, HUGE: 2 << 20}


def random_distances(rng: Random, nodes: int) -> Distances:
    rows = [[10] * nodes for _ in range(nodes)]
    for a, b in combinations(range(nodes), 2):
        rows[a][b] = rows[b][a] = rng.choice((12, 20, 20, 40))
    return Distances({n: dict(enumerate(row)) for n, row in enumerate(rows)})


def random_request(rng: Random, most: int) -> Request:
    request = {"memory": rng.randint(1, most * PAGE_BYTES)}
    if rng.random() < 0.3:
        request[HUGE] = rng.randint(1, most) * UNITS[HUGE]
    return request


def random_state(rng: Random, nodes: int) -> State:
    """Return a machine on which pods have single nodes and groups, some of them reusable."""
    state = worlds.empty_state(
        {n: {name: rng.randint(3, 9) * unit for name, unit in UNITS.items()} for n in range(nodes)}
    )
    for index in range(rng.randint(0, 5)):
        chosen = NodeSet(rng.sample(range(nodes), rng.choice((1, 1, 2, 2, 3)) % nodes + 1))
        request = {name: rng.randint(0, 3) * unit for name, unit in UNITS.items()}
        if crosses_groups(state, chosen):
            continue
        uid, name = rng.choice(("a", "b")), f"c{index}"
        after = assign(state, uid, name, chosen, request, is_even=rng.random() < 0.5)
        if any(block.charged < block.size for block in after.assignments[uid][name]):
            continue
        state = mark_reusable(after, uid, name) if rng.random() < 0.4 else after
    return state


def by_brute_force(
    state: State, request: Request, count: int, preferences: Preferences
) -> NodeSet | None:
    """Return the first of all sets whose nodes hold an equal part each, in the order of rank."""
    sets = map(NodeSet, combinations(state.machine_state, count))
    return min((n for n in sets if holds(state, request, n)), key=preferences.rank, default=None)


def holds(state: State, request: Request, nodes: NodeSet) -> bool:
    for node_id in nodes:
        node = state.machine_state[node_id]
        if node.number_of_assignments and node.cells != nodes:
            return False
        for name, size in request.items():
            pages = -(-size // UNITS[name])
            part = -(-pages // len(nodes)) * UNITS[name]
            reusable = sum(
                sum(bytes_ for charged_id, bytes_ in block.charges if charged_id == node_id)
                for ended in state.reusable.get("a", ())
                for block in state.assignments["a"][ended]
                if block.numa_affinity == nodes and block.type == name
            )
            if node.table(name).free + reusable < part or node.table(name).allocatable < part:
                return False
    return True


@pytest.mark.parametrize("seed", range(20))
def test_the_closest_admissible_group_is_found_and_charged_evenly(seed: int) -> None:
    rng, is_found = Random(seed), False
    for _ in range(25):
        nodes = rng.randint(2, 7)
        state = random_state(rng, nodes)
        count = rng.randint(2, min(4, nodes))
        request = random_request(rng, 8)
        previous = NodeSet(rng.sample(range(nodes), count)) if rng.random() < 0.2 else NodeSet()
        preferences = Preferences(
            random_distances(rng, nodes), rng.random() < 0.8, previous_nodes=previous
        )
        found = best_even_group(state, "a", request, count, preferences)
        assert found == by_brute_force(state, request, count, preferences)
        if found is None:
            continue
        is_found = True
        after = assign(state, "a", "new", found, request, is_even=True)
        for block in after.assignments["a"]["new"]:
            parts = even_parts(found, block.type, block.size)
            assert dict(block.charges) == {n: part for n, part in parts.items() if part}
            unit = UNITS[block.type]
            assert max(parts.values()) - min(parts.values()) <= unit
            assert sum(parts.values()) == block.size
        assert not check_accounting(after)
        assert not check_groups(after)
        removed = remove_container(after, "a", "new")
        assert not check_accounting(removed)
    assert is_found
