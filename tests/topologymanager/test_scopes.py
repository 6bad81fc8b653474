from random import Random
from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Block,
    Container,
    ContainerKind,
    Hint,
    NodeSet,
    Pod,
    Preferences,
    Rejection,
    State,
    enter,
    give_back,
    remove_container,
    state_as_written,
)
from nri_numamem.memorymanager.books import take_back
from nri_numamem.topologymanager import (
    Admitted,
    Policy,
    ProviderHints,
    Topology,
    admit_container,
    admit_containers,
    admit_pod,
    nodes_for_container,
)

INIT, APP = ContainerKind.INIT, ContainerKind.APP


@pytest.fixture
def state(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 8} for n in range(3)})
    assert isinstance(made, State)
    return made


def topology(policy: Policy = Policy.BEST_EFFORT) -> Topology:
    return Topology(policy, Preferences(prefer_closest=False))


def pod(*requests: tuple[ContainerKind, int], uid: str = "a", guaranteed: bool = True) -> Pod:
    made = (Container(f"c{i}", kind, {"memory": q}) for i, (kind, q) in enumerate(requests))
    return Pod(uid, guaranteed, tuple(made))


def admitted(got: Admitted | Rejection) -> Admitted:
    assert isinstance(got, Admitted), got
    return got


def places(got: Admitted) -> dict[str, str]:
    return {name: str(allocated.nodes) for name, allocated in got.containers.items()}


@pytest.mark.parametrize("policy", list(Policy))
def test_a_container_is_placed(state: State, policy: Policy) -> None:
    got = admitted(admit_container(state, pod((APP, 5)), "c0", topology(policy)))
    assert places(got) == {"c0": "0"}
    assert got.state.assignments.keys() == {"a"}


def test_others_pull_the_container_to_their_node(state: State) -> None:
    cpu = {"cpu": [Hint(NodeSet([2]), preferred=True), Hint(NodeSet([0, 2]), preferred=False)]}
    restricted = topology(Policy.RESTRICTED)
    got = admitted(admit_container(state, pod((APP, 5)), "c0", restricted, [cpu]))
    assert places(got) == {"c0": "2"}
    assert got.hints == {"c0": Hint(NodeSet([2]), preferred=True)}


@pytest.mark.parametrize("policy", [Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE])
def test_a_refusal_of_the_topology_manager(state: State, policy: Policy) -> None:
    for n in range(3):
        hint = {"cpu": [Hint(NodeSet([n]), preferred=True)]}
        one = pod((APP, 4), uid=f"p{n}")
        state = admitted(admit_container(state, one, "c0", topology(), [hint])).state
    got = admit_container(state, pod((APP, 5)), "c0", topology(policy))
    assert isinstance(got, Rejection)
    assert got.reason == "TopologyAffinityError"
    assert got.message == (
        "requested memory 5; one empty NUMA node would do; "
        "NUMA nodes 0-2: 4 free of 8, serves single-node assignments; "
        "Resources cannot be allocated with Topology locality"
    )


def test_a_refusal_says_where_it_would_fit(state: State) -> None:
    first = admitted(admit_container(state, pod((APP, 5), uid="b"), "c0", topology())).state
    smaller = {n: node for n, node in first.machine_state.items() if n < 2}
    two = State(smaller, first.assignments)
    got = admit_container(two, pod((APP, 9)), "c0", topology(Policy.SINGLE_NUMA_NODE))
    assert isinstance(got, Rejection)
    assert "fit" not in got.message
    got = admit_container(state, pod((APP, 9)), "c0", topology(Policy.SINGLE_NUMA_NODE))
    assert isinstance(got, Rejection)
    assert "by itself it would fit on NUMA nodes 0-1" in got.message


@pytest.mark.parametrize("policy", [Policy.NONE, Policy.BEST_EFFORT])
def test_a_refusal_of_the_memory_manager(state: State, policy: Policy) -> None:
    got = admit_container(state, pod((APP, 25)), "c0", topology(policy))
    assert isinstance(got, Rejection)
    assert got.reason == "UnexpectedAdmissionError"
    assert got.message.endswith(
        "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, "
        "no NUMA nodes with enough memory is available, which is unexpected"
    )


@pytest.mark.parametrize("policy", list(Policy))
def test_a_pod_that_is_not_guaranteed_is_left_alone(state: State, policy: Policy) -> None:
    burstable = pod((APP, 25), guaranteed=False)
    for admit in (admit_containers, admit_pod):
        got = admitted(admit(state, burstable, topology(policy)))
        assert places(got) == {"c0": ""}
        assert got.state is state


def test_containers_are_admitted_one_after_the_other(state: State) -> None:
    several = pod((INIT, 6), (APP, 7), (APP, 3))
    got = admitted(admit_containers(state, several, topology()))
    assert places(got) == {"c0": "0", "c1": "0", "c2": "1"}
    assert list(got.hints) == ["c0", "c1", "c2"]
    cpu = {"c1": [{"cpu": [Hint(NodeSet([2]), preferred=True)]}]}
    got = admitted(admit_containers(state, several, topology(), cpu))
    assert places(got) == {"c0": "0", "c1": "2", "c2": "0"}


def test_a_pod_is_admitted_whole_or_not_at_all(state: State) -> None:
    got = admit_containers(state, pod((APP, 6), (APP, 25)), topology())
    assert isinstance(got, Rejection)
    restricted = topology(Policy.RESTRICTED)
    assert isinstance(admit_pod(state, pod((APP, 6), (APP, 25)), restricted), Rejection)
    assert state.assignments == {}


def test_the_pod_scope_counts_what_init_containers_give_back(state: State) -> None:
    """The app would fit on one node, so no preferred hint on the pod's two is left for it."""
    init_first = pod((INIT, 7), (INIT, 13), (APP, 6))
    got = admitted(admit_pod(state, init_first, topology(Policy.RESTRICTED)))
    assert places(got) == {"c0": "0-1", "c1": "0-1", "c2": "0-1"}
    assert set(got.hints.values()) == {Hint(NodeSet([0, 1]), preferred=True)}
    free = [node.table("memory").free for node in got.state.machine_state.values()]
    assert sum(free) == 3 * 8 - 13


def test_the_pod_scope_places_all_containers_together(state: State) -> None:
    several = pod((APP, 6), (APP, 6))
    got = admitted(admit_pod(state, several, topology()))
    assert places(got) == {"c0": "0-1", "c1": "0-1"}
    assert set(got.hints.values()) == {Hint(NodeSet([0, 1]), preferred=True)}
    apart = admitted(admit_containers(state, several, topology()))
    assert places(apart) == {"c0": "0", "c1": "1"}


def test_a_container_may_not_fit_where_its_pod_does(worlds: ModuleType) -> None:
    """An init container of the pod takes hugepages that no app asks for."""
    state = worlds.empty_state({0: {"memory": 8}, 1: {"memory": 8, "hugepages-2Mi": 1}})
    containers = (
        Container("init", INIT, {"memory": 1, "hugepages-2Mi": 2}),
        Container("app", APP, {"memory": 1}),
    )
    got = admit_pod(state, Pod("a", guaranteed=True, containers=containers), topology())
    assert isinstance(got, Rejection)
    assert got.reason == "UnexpectedAdmissionError"


# Where a container would be placed, without the books in which it is


def test_a_container_in_two_places_keeps_both(worlds: ModuleType) -> None:
    amounts = {"memory": 8, "hugepages-2Mi": 8}
    empty: State = worlds.empty_state(dict.fromkeys(range(2), amounts))
    blocks = (Block(NodeSet([0]), "memory", 1), Block(NodeSet([1]), "hugepages-2Mi", 2))
    state = state_as_written(empty.machine_state, {"a": {"x": blocks}})
    its = Pod(
        "a", guaranteed=True, containers=(Container("x", APP, {"memory": 1, "hugepages-2Mi": 2}),)
    )
    assert nodes_for_container(state, its, "x", topology()) == (
        NodeSet([0, 1]),
        Hint(NodeSet([0]), preferred=True),
    )


def random_others(random: Random, nodes: int) -> tuple[ProviderHints, ...]:
    masks = [random.randrange(1, 1 << nodes) for _ in range(random.randrange(3))]
    hints = [Hint(NodeSet.from_mask(mask), random.random() < 0.7) for mask in masks]
    return ({"cpu": hints},) if hints else ()


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("seed", range(25))
def test_the_nodes_are_those_of_the_admission(
    worlds: ModuleType, seed: int, policy: Policy
) -> None:
    random = Random(seed)
    size = random.randrange(1, 6)
    state: State = worlds.empty_state(worlds.random_world(random, size))
    set_up = topology(policy)
    for _ in range(60):
        uid, name = random.choice("abc"), random.choice("xyz")
        if random.random() < 0.4:
            after = random.choice([give_back, remove_container, take_back])
            state = after(state, uid, name)
            continue
        kind = random.choice([APP, APP, APP, INIT])
        amounts = {"memory": random.randrange(9), "hugepages-2Mi": random.randrange(1, 4)}
        asked = dict(random.sample(list(amounts.items()), random.randrange(3)))
        its = Pod(uid, random.random() < 0.95, (Container(name, kind, asked),))
        if random.random() < 0.2:
            home = NodeSet.from_mask(random.randrange(1 << size))
            set_up = topology(policy).at_home(home)
        others = random_others(random, size)
        found = nodes_for_container(state, its, name, set_up, others)
        got = admit_container(state, its, name, set_up, others)
        if isinstance(got, Rejection):
            assert found == got
            continue
        nodes, hint = found if isinstance(found, tuple) else (None, None)
        assert hint == got.hints[name]
        if its.guaranteed:
            assert asked == {} or nodes == got.containers[name].nodes
            assert nodes is not None
            assert enter(state, its, name, nodes) == got.state
        else:
            assert nodes == NodeSet()
        state = got.state
