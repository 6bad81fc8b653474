"""Small machines and random events on them, for the package and the oracle."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from nri_numamem.memorymanager import (
    Block,
    Container,
    ContainerKind,
    Hint,
    NodeState,
    Pod,
    Rejection,
    State,
    Table,
    check_accounting,
    check_groups,
    mark_reusable,
    nodes_of,
    remove_container,
)
from nri_numamem.memorymanager.policy_static import choose_nodes, record_allocation
from nri_numamem.numa import Distances, Machine, NodeSet, NumaNode, Preferences
from tests.sequences.machine import PAGE_2MI
from tests.sequences.node_life import node_life
from tests.sequences.operations import (
    CreateNext,
    EndContainer,
    EndPod,
    Operation,
    PodSpec,
    RemoveContainer,
    Resize,
    StartPod,
)

Amounts: TypeAlias = dict[str, int]
World: TypeAlias = dict[int, Amounts]
Event: TypeAlias = tuple[Any, ...]

if TYPE_CHECKING:
    from tests.property.oracle import Oracle


def empty_state(world: World) -> State:
    """Return a state without assignments; `world` has the allocatable amounts."""
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


@dataclass(frozen=True, slots=True)
class Allocated:
    """A container that was placed, or that the policy does not manage."""

    state: State
    blocks: tuple[Block, ...] = ()

    @property
    def nodes(self) -> NodeSet:
        return nodes_of(self.blocks)


def allocate(
    state: State, pod: Pod, name: str, hint: Hint, preferences: Preferences
) -> Allocated | Rejection:
    """Choose the nodes of a container by a merged hint, and record the allocation."""
    nodes = choose_nodes(state, pod, name, hint, preferences)
    if isinstance(nodes, Rejection):
        return nodes
    if not pod.guaranteed:
        return Allocated(state)
    placed = record_allocation(state, pod, name, nodes)
    return Allocated(placed, placed.assignments[pod.uid][name])


def accounting(state: State) -> dict[int, Any]:
    """Return the same as Oracle.accounting()."""
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
    """Return the blocks of every container, in the oracle's format."""
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
    """Apply an event to package and oracle, compare them, and return the next state."""
    verb, uid, name = event[:3]
    if verb == "allocate":
        state = allocate_in_both(state, oracle, event, preferences)
    elif verb == "mark_reusable":
        state = mark_reusable(state, uid, name)
        oracle.end(uid, name)
    else:
        state = remove_container(state, uid, name)
        oracle.remove(uid, name)
    assert accounting(state) == oracle.accounting(), event
    assert sizes(state) == oracle_sizes(oracle), event
    assert check_accounting(state) == check_groups(state) == ()
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
    """Return whether a hint names a part of a group.

    The free bytes of a part depend on the order of allocations and releases in the group, for
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
    """Return a matrix over all ids below `nodes`: sockets, or random distances."""
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
    """Yield the first events of a life on these nodes; requests may exceed the machine.

    Three pods stand for all of them, so that containers are often allocated again.
    """
    life = node_life(random.getrandbits(32), _machine(world), is_orderly=False, least_bytes=1)
    pods: dict[str, PodSpec] = {}
    events = (event for each in life.operations() for event in _events(random, world, pods, each))
    return islice(events, length)


def _machine(world: World) -> Machine:
    return Machine(
        tuple(
            NumaNode(n, amounts["memory"], {PAGE_2MI: amounts.get("hugepages-2Mi", 0)})
            for n, amounts in world.items()
        )
    )


def _events(
    random: Random, world: World, pods: dict[str, PodSpec], operation: Operation
) -> Iterator[Event]:
    """Yield what an operation means for the accounting; `pods` has those that have started."""
    if isinstance(operation, StartPod):
        pods[operation.pod.key] = operation.pod
        return
    specs = {spec.name: spec for spec in pods[operation.pod].specs}
    uid = "abc"[int(pods[operation.pod].name.removeprefix("pod-")) % 3]
    match operation:
        case CreateNext():
            spec = specs.get(operation.container) or random.choice([*specs.values()])
            # Zero bytes, too: a container of a pod with limits for others.
            memory = 0 if random.random() < 0.1 else spec.memory_bytes
            request = {"memory": memory}
            if pages := spec.hugepages.get(PAGE_2MI, 0) // PAGE_2MI:
                request["hugepages-2Mi"] = pages % 5
            yield "allocate", uid, spec.name, request, _random_hint(random, world)
            if spec.is_init:
                yield "mark_reusable", uid, spec.name
        case Resize(container=name, memory_bytes=memory):
            yield "allocate", uid, name, {"memory": memory}, _random_hint(random, world)
        case EndContainer(container=name):
            yield "mark_reusable", uid, name
        case RemoveContainer(container=name):
            yield "remove", uid, name
        case EndPod():
            yield from (("remove", uid, name) for name in specs)


def _random_hint(random: Random, world: World) -> tuple[tuple[int, ...] | None, bool]:
    nodes = None
    if random.random() < 0.3:
        nodes = tuple(sorted(random.sample(sorted(world), random.randint(1, len(world)))))
    return nodes, random.random() < 0.3


def preferences_for(distances: list[list[int]] | None) -> Preferences:
    if distances is None:
        return Preferences(prefer_closest=False)
    return Preferences(Distances.of_rows(distances))
