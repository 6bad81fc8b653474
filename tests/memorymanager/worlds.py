"""Small machines, and lives of pods on them, for package and oracle side by side."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from nri_numamem.memorymanager import (
    Container,
    ContainerKind,
    Distances,
    Hint,
    NodeSet,
    NodeState,
    Pod,
    Preferences,
    Rejection,
    State,
    Table,
    allocate,
    check_books,
    check_groups,
    give_back,
    remove_container,
)

Amounts: TypeAlias = dict[str, int]
World: TypeAlias = dict[int, Amounts]
Event: TypeAlias = tuple[Any, ...]

if TYPE_CHECKING:
    from tests.memorymanager.oracle import Oracle


def empty_state(world: World) -> State:
    """Return books in which nothing is assigned; pools are as large as they say."""
    return State({n: empty_node(n, amounts) for n, amounts in sorted(world.items())})


def empty_node(node_id: int, amounts: Amounts) -> NodeState:
    pools = sum(size for name, size in amounts.items() if name != "memory")
    tables = {
        name: Table(size + (pools if name == "memory" else 0), 0, size, 0, size)
        for name, size in amounts.items()
    }
    return NodeState(0, tables, NodeSet([node_id]))


def pod_with(uid: str, name: str, request: Amounts) -> Pod:
    return Pod(uid, guaranteed=True, containers=(Container(name, ContainerKind.APP, request),))


def books(state: State) -> dict[int, Any]:
    """Return the same as Oracle.books()."""
    return {
        n: (
            node.number_of_assignments,
            tuple(node.cells),
            {
                r: sum(state.machine_state[m].table(r).free for m in node.cells)
                for r in node.memory_map
            },
        )
        for n, node in state.machine_state.items()
    }


def sizes(state: State) -> dict[Any, Any]:
    """Return what every container holds, as the oracle keeps it."""
    return {
        (uid, name): sorted((tuple(b.numa_affinity), b.type, b.size) for b in blocks)
        for uid, containers in state.assignments.items()
        for name, blocks in containers.items()
    }


def oracle_sizes(oracle: "Oracle") -> dict[Any, Any]:
    return {
        key: sorted((taken.nodes, taken.resource, taken.size) for taken in blocks)
        for key, blocks in oracle.held.items()
    }


def step(state: State, oracle: "Oracle", event: Event, preferences: Preferences) -> State:
    """Let package and oracle do the same, compare, and return the next state."""
    verb, uid, name = event[:3]
    if verb == "allocate":
        state = allocate_in_both(state, oracle, event, preferences)
    elif verb == "give_back":
        state = give_back(state, uid, name)
        oracle.end(uid, name)
    else:
        state = remove_container(state, uid, name)
        oracle.remove(uid, name)
    assert books(state) == oracle.books(), event
    assert sizes(state) == oracle_sizes(oracle), event
    assert check_books(state) == check_groups(state) == ()
    return state


def allocate_in_both(
    state: State, oracle: "Oracle", event: Event, preferences: Preferences
) -> State:
    _, uid, name, request, (nodes, preferred) = event
    if nodes is not None and cuts_group(oracle, nodes):
        nodes = None
    hint = Hint(None if nodes is None else NodeSet(nodes), preferred)
    got = allocate(state, pod_with(uid, name, request), name, hint, preferences)
    want, problem = oracle.attempt(uid, name, request, (nodes, preferred))
    if isinstance(got, Rejection):
        assert want is None, (event, got)
        assert problem in got.message
        assert len(got.message) <= 900
        return state
    assert tuple(got.nodes) == want, (event, problem)
    return got.state


def cuts_group(oracle: "Oracle", nodes: Sequence[int]) -> bool:
    """Tell whether a hint names a part of a group.

    What is free on a part depends on the order in which the group's bytes came and went, for
    which kubelet and package have different rules; only the sum of the group is comparable.
    """
    return any(not set(oracle.nodes[n].cells) <= set(nodes) for n in nodes)


def random_world(random: Random, nodes: int) -> World:
    """Return nodes with sparse ids, few units each, some without memory or without pools."""
    ids = sorted(random.sample(range(2 * nodes), nodes))
    most = random.choice((2, 4, 9))
    has_pools = random.random() < 0.5
    world: World = {}
    for n in ids:
        world[n] = {"memory": random.randint(0, most)}
        if has_pools and random.random() < 0.8:
            world[n]["hugepages-2Mi"] = random.randint(0, most)
    return world


def random_distances(random: Random, nodes: int) -> list[list[int]]:
    """Return a matrix over all ids below `nodes`: trees of sockets, or anything at all."""
    if random.random() < 0.5:
        width = random.choice((2, 4))
        return [
            [10 if a == b else 12 if a // width == b // width else 21 for b in range(nodes)]
            for a in range(nodes)
        ]
    return [
        [10 if a == b else random.choice((11, 12, 20)) for b in range(nodes)] for a in range(nodes)
    ]


def random_life(random: Random, world: World, length: int) -> Iterator[Event]:
    """Yield events of a few pods; ask for what exists and for what does not."""
    total = sum(amounts["memory"] for amounts in world.values())
    for _ in range(length):
        uid, name = random.choice("ab"), random.choice("xyz")
        verb = random.choice(("allocate", "allocate", "allocate", "give_back", "remove"))
        if verb != "allocate":
            yield verb, uid, name
            continue
        request = {"memory": random.choice((0, 1, 2, 3, max(1, total // 2), total + 1))}
        if random.random() < 0.3:
            request["hugepages-2Mi"] = random.randint(0, 4)
        nodes: Sequence[int] | None = None
        if random.random() < 0.3:
            nodes = tuple(sorted(random.sample(sorted(world), random.randint(1, len(world)))))
        yield "allocate", uid, name, request, (nodes, random.random() < 0.3)


def preferences_for(distances: list[list[int]] | None) -> Preferences:
    if distances is None:
        return Preferences(prefer_closest=False)
    return Preferences(Distances.of_rows(distances))
