"""The merge of the few hints that the package generates, against the merge of all hints.

The oracle enumerates every node set and every combination of hints. The package passes only hints
that can decide to the merge. Merged hint, verdict and placement must be the same.
"""

import os
from collections.abc import Iterator
from itertools import combinations_with_replacement, cycle, product
from random import Random
from types import ModuleType
from typing import Any

import pytest

from nri_numamem.memorymanager import Hint, Rejection, State
from nri_numamem.numa import NodeSet, Preferences
from nri_numamem.topologymanager import (
    Topology,
    TopologyPolicy,
    admit,
    merge_hints,
    merged_hints_of,
)
from tests.laboratory.container_hints import topology_hints
from tests.property.worlds import allocate

# For a long run: NUMAMEM_LIVES=100000
LIVES = int(os.environ.get("NUMAMEM_LIVES", "300"))
ALL = 100_000
POLICIES = ("best-effort", "restricted", "single-numa-node")


def random_lists(random: Random, ids: list[int]) -> list[Any]:
    """Return random hints of up to two other providers, in the oracle's format."""
    answers: list[Any] = []
    for _ in range(random.choice((0, 0, 1, 1, 1, 2))):
        shape = random.random()
        if shape < 0.1:
            answers.append(random.choice((None, {"cpu": None}, {"cpu": []})))
            continue
        hints: list[Any] = []
        for _ in range(random.randint(1, 4)):
            nodes = tuple(sorted(random.sample(ids, random.randint(1, len(ids)))))
            hints.append((None if random.random() < 0.1 else nodes, random.random() < 0.5))
        answers.append({"cpu": hints})
    return answers


def as_hints(answer: Any) -> Any:  # noqa: ANN401 - there are four shapes of an answer
    if not answer:
        return answer
    return {
        r: li and [Hint(None if n is None else NodeSet(n), p) for n, p in li]
        for r, li in answer.items()
    }


def compare(
    oracle: Any,  # noqa: ANN401 - the oracle is loaded by path
    worlds: ModuleType,
    state: State,
    request: dict[str, int],
    answers: list[Any],
    policy: str,
    preferences: Preferences,
) -> None:
    full = oracle.hints("new", request)
    want, wanted = oracle.merge([*answers, {"memory": full}], policy)

    pod = worlds.pod_with("new", "main", request)
    others = [as_hints(answer) for answer in answers]
    offers = merged_hints_of(others, TopologyPolicy(policy))
    own = topology_hints(state, pod, "main", preferences, offers)
    assert own is not None
    given = {"memory": own["memory"]}
    nodes = NodeSet(state.machine_state)
    hint, admits = merge_hints([*others, given], nodes, TopologyPolicy(policy), preferences)

    place = (request, answers, policy, oracle.accounting())
    affinity = None if hint.affinity is None else tuple(hint.affinity)
    assert ((affinity, hint.preferred), admits) == (want, wanted), place
    found = admit(state, pod, "main", Topology(TopologyPolicy(policy), preferences), others)
    if not isinstance(found, Rejection):
        assert (found.hint, True) == (hint, admits), place
    if admits and not (want[0] is not None and worlds.cuts_group(oracle, want[0])):
        got = allocate(state, pod, "main", hint, preferences)
        is_refused = isinstance(got, Rejection) or not own["memory"]
        assert isinstance(found, Rejection) is is_refused, place
        placed, _ = oracle.copy().attempt("new", "main", request, want)
        assert (None if isinstance(got, Rejection) else tuple(got.nodes)) == placed, place
        if not isinstance(found, Rejection) and not isinstance(got, Rejection):
            assert (found.nodes, found.accounting) == (got.nodes, got.state), place


def small_worlds(nodes: int) -> Iterator[tuple[dict[int, Any], list[Any]]]:
    """Yield every machine of `nodes` nodes of 1 to 3 units, with every set of assignments.

    Each node is unassigned or has a single-node assignment of one unit. The first two unassigned
    nodes may also be a group.
    """
    for capacities in combinations_with_replacement((1, 2, 3), nodes):
        world = {n: {"memory": capacity} for n, capacity in enumerate(capacities)}
        for used in product((False, True), repeat=nodes):
            singles = [(n,) for n in range(nodes) if used[n]]
            unused = tuple(n for n in range(nodes) if not used[n])
            yield world, singles
            if len(unused) >= 2:
                yield world, [*singles, unused[:2]]


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 6])
def test_every_small_machine(oracle: ModuleType, worlds: ModuleType, nodes: int) -> None:
    random = Random(nodes)
    policies = cycle(POLICIES)
    rows = worlds.random_distances(random, nodes)
    for number, (world, used) in enumerate(small_worlds(nodes)):
        if nodes > 4 and LIVES < ALL and number % (7 if nodes == 5 else 29):
            continue  # of larger machines, only some of the sets of assignments
        distances = rows if number % 2 else None
        preferences = worlds.preferences_for(distances)
        state, twin = worlds.empty_state(world), oracle.Oracle(world, distances)
        for index, place in enumerate(used):
            event = ("allocate", "old", f"c{index}", {"memory": 1}, (place, False))
            state = worlds.step(state, twin, event, preferences)
        total = sum(amounts["memory"] for amounts in world.values())
        for size in range(1, total + 2):
            policy = next(policies)
            compare(twin, worlds, state, {"memory": size}, [], policy, preferences)
            answers = random_lists(random, sorted(world))
            compare(twin, worlds, state, {"memory": size}, answers, policy, preferences)


@pytest.mark.parametrize("seed", range(20))
def test_generated_hints_merge_like_all_hints(
    oracle: ModuleType, worlds: ModuleType, seed: int
) -> None:
    random = Random(seed)
    for _ in range(max(1, LIVES // 20)):
        world = worlds.random_world(random, random.choice((1, 2, 3, 4, 5, 6)))
        distances = None
        if random.random() < 0.7:
            distances = worlds.random_distances(random, max(world) + 1)
        preferences = worlds.preferences_for(distances)
        state, twin = worlds.empty_state(world), oracle.Oracle(world, distances)
        for event in worlds.random_life(random, world, random.choice((0, 2, 5, 9))):
            state = worlds.step(state, twin, event, preferences)
        total = sum(amounts["memory"] for amounts in world.values())
        for _ in range(6):
            request = {"memory": random.randint(0, max(1, total))}
            if random.random() < 0.4:
                request["hugepages-2Mi"] = random.randint(0, 6)
            answers = random_lists(random, sorted(world))
            policy = random.choice(POLICIES)
            compare(twin, worlds, state, request, answers, policy, preferences)


@pytest.mark.parametrize("seed", range(10))
def test_up_to_ten_nodes(oracle: ModuleType, worlds: ModuleType, seed: int) -> None:
    random = Random(seed)
    for _ in range(max(1, LIVES // 150)):
        world = worlds.random_world(random, random.randint(7, 10))
        distances = worlds.random_distances(random, max(world) + 1)
        preferences = worlds.preferences_for(distances)
        state, twin = worlds.empty_state(world), oracle.Oracle(world, distances)
        for event in worlds.random_life(random, world, 4):
            state = worlds.step(state, twin, event, preferences)
        total = sum(amounts["memory"] for amounts in world.values())
        request = {"memory": random.randint(1, max(1, total))}
        if random.random() < 0.5:
            request["hugepages-2Mi"] = random.randint(0, 9)
        answers = random_lists(random, sorted(world))
        compare(twin, worlds, state, request, answers, random.choice(POLICIES), preferences)
