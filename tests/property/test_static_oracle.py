"""The policy Static against the oracle: all sequences of events on small machines, random lives."""

import os
from random import Random
from types import ModuleType
from typing import Any

import pytest

from nri_numamem.memorymanager import State

SLOTS = (("a", "x"), ("a", "y"), ("b", "x"))
DEFAULT = (None, False)

MEMORY_ONLY = ({"memory": 1}, {"memory": 3}, {"memory": 5})
WITH_POOLS = ({"memory": 1}, {"memory": 3, "hugepages-2Mi": 1})

# Every reachable state is visited once, even if several sequences of events lead to it.
MACHINES = [
    pytest.param({0: {"memory": 4}}, MEMORY_ONLY, 6, id="one node"),
    pytest.param({0: {"memory": 2}, 1: {"memory": 4}}, MEMORY_ONLY, 6, id="two nodes"),
    pytest.param(
        {0: {"memory": 2, "hugepages-2Mi": 1}, 5: {"memory": 3, "hugepages-2Mi": 2}},
        WITH_POOLS,
        6,
        id="two nodes with hugepages",
    ),
    pytest.param(
        {0: {"memory": 2}, 1: {"memory": 2}, 2: {"memory": 3}}, MEMORY_ONLY, 6, id="three nodes"
    ),
    pytest.param(
        {0: {"memory": 1}, 1: {"memory": 0}, 3: {"memory": 4}}, MEMORY_ONLY, 6, id="an empty node"
    ),
]

# For a long run: NUMAMEM_LIVES=100000
LIVES = int(os.environ.get("NUMAMEM_LIVES", "300"))


def events(world: dict[int, Any], requests: tuple[dict[str, int], ...]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for uid, name in SLOTS:
        found += [("allocate", uid, name, request, DEFAULT) for request in requests]
        found += [("mark_reusable", uid, name), ("remove", uid, name)]
    first = min(world)
    found += [
        ("allocate", "a", "x", requests[-1], ((first,), True)),
        ("allocate", "b", "x", requests[0], (tuple(world), False)),
    ]
    return found


def identity(state: State) -> str:
    """Return the whole state as text, with the order of the reusable containers."""
    held = {
        (uid, name, block.type): (block.numa_affinity.mask, block.size, block.charges)
        for uid, containers in state.assignments.items()
        for name, blocks in containers.items()
        for block in blocks
    }
    return repr((sorted(held.items()), sorted(state.reusable.items())))


@pytest.mark.parametrize(("world", "requests_", "depth"), MACHINES)
def test_every_sequence_of_events(
    oracle: ModuleType,
    worlds: ModuleType,
    world: dict[int, Any],
    requests_: tuple[dict[str, int], ...],
    depth: int,
) -> None:
    preferences = worlds.preferences_for(None)
    start = worlds.empty_state(world)
    seen = {identity(start)}
    level = [(start, oracle.Oracle(world))]
    for _ in range(depth):
        following = []
        for state, twin in level:
            for event in events(world, requests_):
                next_twin = twin.copy()
                next_state = worlds.step(state, next_twin, event, preferences)
                if identity(next_state) not in seen:
                    seen.add(identity(next_state))
                    following.append((next_state, next_twin))
        level = following


@pytest.mark.parametrize("seed", range(20))
def test_random_lives(oracle: ModuleType, worlds: ModuleType, seed: int) -> None:
    random = Random(seed)
    for _ in range(max(1, LIVES // 20)):
        world = worlds.random_world(random, random.randint(1, 5))
        distances = None
        if random.random() < 0.7:
            distances = worlds.random_distances(random, max(world) + 1)
        preferences = worlds.preferences_for(distances)
        state, twin = worlds.empty_state(world), oracle.Oracle(world, distances)
        for event in worlds.random_life(random, world, 25):
            state = worlds.step(state, twin, event, preferences)
