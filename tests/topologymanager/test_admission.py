"""Admission of one container, and the memory manager behind it."""

from random import Random
from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Block,
    Container,
    ContainerKind,
    Hint,
    Pod,
    Rejection,
    State,
    mark_reusable,
    remove_container,
    state_as_written,
)
from nri_numamem.memorymanager.accounting import assign, unmark_reusable
from nri_numamem.numa import NodeSet, Preferences, Strategy
from nri_numamem.numa.preferences import Balance
from nri_numamem.topologymanager.admission import (
    Placement,
    Topology,
    admit,
    admit_beside_groups,
    admit_with_hint,
)
from nri_numamem.topologymanager.merge import ProviderHints, TopologyPolicy
from tests.property.worlds import Allocated, allocate

INIT, APP = ContainerKind.INIT, ContainerKind.APP


@pytest.fixture
def state(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 8} for n in range(3)})
    assert isinstance(made, State)
    return made


def topology(policy: TopologyPolicy = TopologyPolicy.BEST_EFFORT) -> Topology:
    return Topology(policy, Preferences(prefer_closest=False))


def pod(*requests: tuple[ContainerKind, int], uid: str = "a", guaranteed: bool = True) -> Pod:
    made = (Container(f"c{i}", kind, {"memory": q}) for i, (kind, q) in enumerate(requests))
    return Pod(uid, guaranteed, tuple(made))


def placed(got: Placement | Rejection) -> Placement:
    assert isinstance(got, Placement), got
    return got


@pytest.mark.parametrize("policy", list(TopologyPolicy))
def test_a_container_is_placed(state: State, policy: TopologyPolicy) -> None:
    got = placed(admit(state, pod((APP, 5)), "c0", topology(policy)))
    assert got.nodes == NodeSet([0])
    assert got.before is state
    assert got.accounting.assignments.keys() == {"a"}
    assert got.accounting.machine_state[0].table("memory").free == 3


def test_hints_of_other_providers_decide_the_node(state: State) -> None:
    cpu = {"cpu": [Hint(NodeSet([2]), preferred=True), Hint(NodeSet([0, 2]), preferred=False)]}
    got = placed(admit(state, pod((APP, 5)), "c0", topology(TopologyPolicy.RESTRICTED), [cpu]))
    assert (got.nodes, got.hint) == (NodeSet([2]), Hint(NodeSet([2]), preferred=True))


STRICT = [TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE]


@pytest.mark.parametrize("policy", STRICT)
def test_a_rejection_of_the_topology_manager(state: State, policy: TopologyPolicy) -> None:
    for n in range(3):
        hint = {"cpu": [Hint(NodeSet([n]), preferred=True)]}
        one = pod((APP, 4), uid=f"p{n}")
        state = placed(admit(state, one, "c0", topology(), [hint])).accounting
    got = admit(state, pod((APP, 5)), "c0", topology(policy))
    assert isinstance(got, Rejection)
    assert got.reason == "TopologyAffinityError"
    assert got.message == (
        "requested memory 5; fits on 1 empty NUMA node; "
        "NUMA nodes 0-2: 4 free of 8 allocatable, 1 short; "
        "Resources cannot be allocated with Topology locality"
    )


def test_a_rejection_names_the_nodes_that_would_suffice(state: State) -> None:
    first = placed(admit(state, pod((APP, 5), uid="b"), "c0", topology())).accounting
    smaller = {n: node for n, node in first.machine_state.items() if n < 2}
    two = State(smaller, first.assignments)
    single = topology(TopologyPolicy.SINGLE_NUMA_NODE)
    got = admit(two, pod((APP, 9)), "c0", single)
    assert isinstance(got, Rejection)
    assert "would fit" not in got.message
    got = admit(state, pod((APP, 9)), "c0", single)
    assert isinstance(got, Rejection)
    assert "without topology constraints it would fit on NUMA nodes 0-1" in got.message


@pytest.mark.parametrize("policy", [TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT])
def test_a_rejection_of_the_memory_manager(state: State, policy: TopologyPolicy) -> None:
    got = admit(state, pod((APP, 25)), "c0", topology(policy))
    assert isinstance(got, Rejection)
    assert got.reason == "UnexpectedAdmissionError"
    assert got.message.endswith(
        "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, "
        "no NUMA nodes with enough memory is available, which is unexpected"
    )


@pytest.mark.parametrize("policy", list(TopologyPolicy))
def test_a_pod_that_is_not_guaranteed_is_not_restricted(
    state: State, policy: TopologyPolicy
) -> None:
    got = placed(admit(state, pod((APP, 25), guaranteed=False), "c0", topology(policy)))
    assert got.nodes == NodeSet()
    assert got.accounting is state


def test_memory_of_init_containers_is_reused(state: State) -> None:
    several = pod((INIT, 6), (APP, 7), (APP, 3))
    nodes = []
    for name in ("c0", "c1", "c2"):
        got = placed(admit(state, several, name, topology()))
        nodes.append(str(got.nodes))
        state = got.accounting
    assert nodes == ["0", "0", "1"]


def test_a_hint_that_suffices_is_followed(state: State) -> None:
    hint = Hint(NodeSet([1, 2]), preferred=False)
    got = placed(admit_with_hint(state, pod((APP, 5)), "c0", hint, topology().preferences))
    assert (got.nodes, got.hint) == (NodeSet([1, 2]), hint)


def test_a_hint_that_does_not_suffice_is_extended(state: State) -> None:
    hint = Hint(NodeSet([1]), preferred=False)
    got = placed(admit_with_hint(state, pod((APP, 9)), "c0", hint, topology().preferences))
    assert got.nodes == NodeSet([0, 1])
    crowded = admit_with_hint(state, pod((APP, 25)), "c0", hint, topology().preferences)
    assert isinstance(crowded, Rejection)


def test_previous_nodes_win_among_equal_sets(state: State) -> None:
    before = topology().with_previous_nodes(NodeSet([2]))
    assert placed(admit(state, pod((APP, 5)), "c0", before)).nodes == NodeSet([2])


@pytest.mark.parametrize(("strategy", "node"), [(Strategy.PACK, 1), (Strategy.SPREAD, 2)])
def test_free_memory_decides_among_equal_sets(state: State, strategy: Strategy, node: int) -> None:
    for number, size in enumerate((2, 3, 1)):
        state = assign(state, f"other-{number}", "x", NodeSet([number]), {"memory": size})
    by_strategy = Topology(preferences=Preferences(strategy=strategy))
    assert by_strategy.compares_free_memory
    chosen = by_strategy.with_memory_of(state, {"memory": 5})
    assert placed(admit(state, pod((APP, 5)), "c0", chosen)).nodes == NodeSet([node])


def test_the_balance_with_cpus_decides_among_equal_sets(state: State) -> None:
    """All nodes have the same memory; the used fraction of node 1's CPUs is the nearest to it."""
    memory_bytes = state.machine_state[0].table("memory").allocatable
    halves = dict.fromkeys(range(3), 1000)
    balance = Balance(halves, {0: 0, 1: 1000 * 5 // memory_bytes, 2: 1000})
    strategy = Strategy.BALANCED_WITH_CPUS
    by_strategy = Topology(preferences=Preferences(strategy=strategy, balance=balance))
    chosen = by_strategy.with_memory_of(state, {"memory": 5})
    assert placed(admit(state, pod((APP, 5)), "c0", chosen)).nodes == NodeSet([1])


def test_a_container_on_two_nodes_keeps_both(worlds: ModuleType) -> None:
    amounts = {"memory": 8, "hugepages-2Mi": 8}
    empty: State = worlds.empty_state(dict.fromkeys(range(2), amounts))
    blocks = (Block(NodeSet([0]), "memory", 1), Block(NodeSet([1]), "hugepages-2Mi", 2))
    state = state_as_written(empty.machine_state, {"a": {"x": blocks}})
    its = Pod(
        "a", guaranteed=True, containers=(Container("x", APP, {"memory": 1, "hugepages-2Mi": 2}),)
    )
    got = placed(admit(state, its, "x", topology()))
    assert (got.nodes, got.hint) == (NodeSet([0, 1]), Hint(NodeSet([0]), preferred=True))


@pytest.mark.parametrize(
    ("cpu", "nodes"),
    [([1], "0-1"), ([1, 2], "2"), ([2], None), ([0, 1, 2], None)],
    ids=["the group", "another node inside", "no group", "everything"],
)
def test_a_hint_for_a_part_of_a_group(state: State, cpu: list[int], nodes: str | None) -> None:
    before = placed(admit(state, pod((APP, 12), uid="b"), "c0", topology())).accounting
    others = [{"cpu": [Hint(NodeSet(cpu), preferred=True)]}]
    got = admit_beside_groups(before, pod((APP, 2)), "c0", topology(), others)
    assert (None if got is None else str(got.nodes)) == nodes
    strict = topology(TopologyPolicy.RESTRICTED)
    assert admit_beside_groups(before, pod((APP, 2)), "c0", strict, others) is None


def test_hints_without_a_common_node_extend_to_no_group(state: State) -> None:
    before = placed(admit(state, pod((APP, 12), uid="b"), "c0", topology())).accounting
    others = [{"cpu": [Hint(NodeSet([2]), preferred=True)]}]
    full = placed(admit(before, pod((APP, 7), uid="d"), "c0", topology(), others)).accounting
    assert admit_beside_groups(full, pod((APP, 3)), "c0", topology(), others) is None


def random_others(random: Random, nodes: int) -> tuple[ProviderHints, ...]:
    masks = [random.randrange(1, 1 << nodes) for _ in range(random.randrange(3))]
    hints = [Hint(NodeSet.from_mask(mask), random.random() < 0.7) for mask in masks]
    return ({"cpu": hints},) if hints else ()


@pytest.mark.parametrize("policy", list(TopologyPolicy))
@pytest.mark.parametrize("seed", range(25))
def test_nodes_and_accounting_are_those_of_the_memory_managers_allocation(
    worlds: ModuleType, seed: int, policy: TopologyPolicy
) -> None:
    random = Random(seed)
    size = random.randrange(1, 6)
    state: State = worlds.empty_state(worlds.random_world(random, size))
    set_up = topology(policy)
    for _ in range(60):
        uid, name = random.choice("abc"), random.choice("xyz")
        if random.random() < 0.4:
            after = random.choice([mark_reusable, remove_container, unmark_reusable])
            state = after(state, uid, name)
            continue
        kind = random.choice([APP, APP, APP, INIT])
        amounts = {"memory": random.randrange(9), "hugepages-2Mi": random.randrange(1, 4)}
        request = dict(random.sample(list(amounts.items()), random.randrange(3)))
        its = Pod(uid, random.random() < 0.95, (Container(name, kind, request),))
        if random.random() < 0.2:
            previous_nodes = NodeSet.from_mask(random.randrange(1 << size))
            set_up = topology(policy).with_previous_nodes(previous_nodes)
        found = admit(state, its, name, set_up, random_others(random, size))
        if isinstance(found, Rejection):
            assert found.message
            continue
        got = allocate(state, its, name, found.hint, set_up.preferences)
        assert isinstance(got, Allocated)
        assert request == {} or found.nodes == got.nodes
        assert found.accounting == got.state
        state = got.state
