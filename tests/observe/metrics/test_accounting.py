"""Metrics of the state that other tests scrape: an empty machine, nodes without CPUs, residency."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RunPodSandbox,
    StopContainer,
)
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.residency.remote_memory import Round
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import State, adopt
from nri_numamem.numa import (
    CpuFollowing,
    CpuSet,
    Exclusive,
    Machine,
    MemoryNodes,
    NodeSet,
    NumaNode,
    Partition,
    PodStrategies,
    Strategy,
    WithoutCpus,
)
from nri_numamem.numa.pages import Pages
from nri_numamem.observe.metrics.accounting import (
    accounting_metrics,
    container_metrics,
    cpu_metrics,
    node_metrics,
    partition_metrics,
    residency_metrics,
    uncharged_bytes,
)
from tests.observe.metrics.test_exposition import Plugin, Samples, container, pod, samples

GI = 1 << 30
CONTEXT = new_context(Machine((NumaNode(0, GI), NumaNode(1, GI))), Policy())


def test_an_empty_machine_has_a_sample_per_node() -> None:
    state = EngineState(CONTEXT.empty_accounting())
    assert [m.samples[0].value for m in container_metrics(state)] == [0] * 7
    found = {m.name: m.samples for m in accounting_metrics(CONTEXT, state)}
    tables = {name for name, samples in found.items() if len(samples) == 2}
    assert {"nri_numamem_node_free_bytes", "nri_numamem_node_group_size"} <= tables
    largest = found["nri_numamem_largest_request_bytes"]
    free = sum(s.value for s in found["nri_numamem_node_free_bytes"])
    assert {s.labels["nodes"]: s.value for s in largest} == {"one": free / 2, "group": free}


@pytest.mark.parametrize(
    ("policy", "is_shown"),
    [
        (Policy(), False),
        (Policy(cpu_following=CpuFollowing.PREFER), True),
        (Policy(placement_strategy=Strategy.BALANCED_WITH_CPUS), True),
        (Policy(pod_strategies=PodStrategies((Strategy.BALANCED_WITH_CPUS,))), True),
        (Policy(pod_strategies=PodStrategies((Strategy.PACK,))), False),
    ],
)
def test_cpu_requests_are_shown_where_they_can_decide(policy: Policy, *, is_shown: bool) -> None:
    engine = Engine(new_context(CONTEXT.machine, policy))
    pod = PodSandbox("s", "u", "ns", "p", "/kubepods/podu", GI // 4)
    container = Container("c", "s", "main", GI // 4, cpu_shares=1536)
    engine.apply(CreateContainer(pod, container))
    found = [s for m in cpu_metrics(engine.context, engine.state) for s in m.samples]
    expected = {"0": 1500, "1": 0} if is_shown else {}
    assert {s.labels["numa_node"]: s.value for s in found} == expected


MACHINE = Machine(
    (
        NumaNode(0, GI, cpus=CpuSet([0]), memory_tier=4),
        NumaNode(1, GI, cpus=CpuSet([1])),
        NumaNode(2, GI, memory_tier=22),
    )
)


def context(action: WithoutCpus = WithoutCpus.EXCLUDE) -> Context:
    return Context.of(MACHINE, Policy(memory_nodes=MemoryNodes(action)))


def accounting(made: Context, nodes: dict[str, NodeSet], size_bytes: int) -> State:
    state = made.empty_accounting()
    for uid, where in nodes.items():
        state = adopt(state, uid, "main", where, {"memory": size_bytes}).state
    return state


def labels(made: Context) -> list[dict[str, str]]:
    info = next(iter(node_metrics(made, made.empty_accounting())))
    assert {sample.value for sample in info.samples} == {1}
    return [sample.labels for sample in info.samples]


def test_each_node_has_class_use_and_tier() -> None:
    assert labels(context()) == [
        {"numa_node": "0", "class": "dram", "use": "used", "memory_tier": "4"},
        {"numa_node": "1", "class": "dram", "use": "used", "memory_tier": ""},
        {"numa_node": "2", "class": "cpuless", "use": "excluded", "memory_tier": "22"},
    ]
    assert labels(context(WithoutCpus.LAST_RESORT))[2]["use"] == "last_resort"


def test_bytes_on_excluded_nodes_are_no_shortfall() -> None:
    made = context()
    free = made.empty_accounting().machine_state[0].table("memory").free
    where = {"a": NodeSet([2]), "b": NodeSet([0]), "c": NodeSet([0])}
    state = accounting(made, where, GI // 2)
    assert uncharged_bytes(made, state, is_excluded=True) == {"memory": GI // 2}
    assert uncharged_bytes(made, state, is_excluded=False) == {"memory": GI - free}
    excluded = list(node_metrics(made, state))[1]
    assert [(s.labels, s.value) for s in excluded.samples] == [({"resource": "memory"}, GI // 2)]


def test_a_container_on_both_kinds_of_nodes_counts_what_is_not_charged() -> None:
    made = context()
    free = made.empty_accounting().machine_state[0].table("memory").free
    state = accounting(made, {"a": NodeSet([0, 2])}, 2 * GI)
    assert uncharged_bytes(made, state, is_excluded=True) == {"memory": 2 * GI - free}
    assert uncharged_bytes(made, state, is_excluded=False) == {"memory": 0}


WEB = Partition("web", NodeSet([2, 3]), namespaces=("web",), exclusive=Exclusive.GUARANTEED)
JOBS = Partition("jobs", count=1, namespaces=("jobs",))
FAR = Partition("far", NodeSet([7]), namespaces=("far",))


def partitioned(**changes: object) -> Samples:
    """Return the metrics of a machine with a container of 1 GiB in the partition `web`."""
    nodes = tuple(NumaNode(node, (node + 1) * GI, {GI // 4: 1}) for node in range(4))
    policy = replace(Policy(partitions=(WEB, JOBS, FAR)), **changes)  # type: ignore[arg-type]
    engine = Engine(new_context(Machine(nodes), policy))
    sandbox = PodSandbox("s", "u", "web", "p", "/kubepods/podu")
    engine.apply(CreateContainer(sandbox, Container("c", "s", "main", GI)))
    known = engine.state.accounting.machine_state
    assert all(node.table("memory").allocatable > 0 for node in known.values())
    found = samples(partition_metrics(engine.context, engine.state))
    free = {node_id: node.table("memory").free for node_id, node in known.items()}
    sums = {"web": free[2] + free[3], "jobs": free[0], "far": 0, "default": free[0] + free[1]}
    for name, size_bytes in sums.items():
        key = "partition_free_bytes", (("partition", name), ("resource", "memory"))
        assert found.get(key, 0) == size_bytes
    return found


def of_partition(found: Samples, name: str, partition: str, **more: str) -> float:
    labels = {"partition": partition, **more}
    return found[f"partition_{name}", tuple(sorted(labels.items()))]


def test_a_partition_that_the_machine_lacks_is_unusable() -> None:
    found = partitioned()
    usable = {
        name: of_partition(found, "usable", name) for name in ("web", "jobs", "far", "default")
    }
    assert usable == {"web": 1, "jobs": 1, "far": 0, "default": 1}
    assert {name for (name, labels) in found if ("partition", "far") in labels} == {
        "partition_usable"
    }


def test_the_amounts_of_a_partition_are_those_of_its_nodes() -> None:
    found = partitioned()
    memory, pages = {"resource": "memory"}, {"resource": "hugepages-256Mi"}
    allocatable = of_partition(found, "allocatable_bytes", "web", **memory)
    assert allocatable - of_partition(found, "free_bytes", "web", **memory) == GI
    assert of_partition(found, "allocatable_bytes", "default", **pages) == GI // 2
    assert of_partition(found, "free_bytes", "jobs", **pages) == GI // 4


def test_the_largest_request_of_a_partition_is_that_inside_of_it() -> None:
    found = partitioned()
    memory = {"resource": "memory"}
    free = of_partition(found, "free_bytes", "default", **memory)
    one = of_partition(found, "largest_request_bytes", "default", nodes="one", **memory)
    group = of_partition(found, "largest_request_bytes", "default", nodes="group", **memory)
    assert (one, group) == (free - of_partition(found, "free_bytes", "jobs", **memory), free)
    single = partitioned(topology_manager_policy="single-numa-node")
    assert of_partition(single, "largest_request_bytes", "default", nodes="group", **memory) == 0


def test_without_the_setting_or_its_effect_there_are_no_partitions() -> None:
    for policy in (Policy(), Policy(partitions=(WEB,), memory_manager_policy="None")):
        made = new_context(Machine(tuple(NumaNode(node, GI) for node in range(4))), policy)
        assert list(partition_metrics(made, EngineState(made.empty_accounting()))) == []


LAST = Round(
    pages={"c1-app": Pages({0: 5, 1: 6}, {}, {1: 7}), "gone": Pages({0: 1})},
    available={0: 10, 1: 20},
    unfaulted={0: 3, 1: 4},
    low_nodes=frozenset([1]),
    remote={"c1-app": 2},
)


def found(last: Round) -> Samples:
    plugin = Plugin()
    plugin.handle(RunPodSandbox(pod(1)))
    plugin.handle(CreateContainer(pod(1), container(1)))
    assert plugin.engine is not None
    return samples(residency_metrics(plugin.engine.state, last))


def test_amounts_per_node() -> None:
    metrics = found(LAST)
    assert metrics["node_available_bytes", (("numa_node", "1"),)] == 20
    assert metrics["node_unfaulted_bytes", (("numa_node", "0"),)] == 3
    low = [metrics["node_head_room_low", (("numa_node", str(node)),)] for node in range(2)]
    assert low == [0, 1]
    assert metrics["remote_memory_containers", ()] == 1
    assert not any(name == "container_resident_bytes" for name, _ in metrics)
    names = {name for name, _ in found(replace(LAST, low_nodes=None))}
    assert "node_head_room_low" not in names


def test_series_of_containers_are_an_option() -> None:
    metrics = found(replace(LAST, per_container=True))
    series = {labels: size for (name, labels), size in metrics.items() if "resident" in name}
    own = (("namespace", "default"), ("pod", "pod1"), ("container", "app"))
    assert series == {
        tuple(sorted((*own, ("numa_node", node), ("kind", kind)))): size
        for node, kind, size in (
            ("0", "anonymous", 5),
            ("1", "anonymous", 6),
            ("1", "hugetlb", 7),
        )
    }


def test_an_ended_container_has_no_series() -> None:
    plugin = Plugin()
    plugin.handle(RunPodSandbox(pod(1)))
    plugin.handle(CreateContainer(pod(1), container(1)))
    plugin.handle(StopContainer(pod(1), container(1)))
    assert plugin.engine is not None
    metrics = samples(residency_metrics(plugin.engine.state, replace(LAST, per_container=True)))
    assert not any(name == "container_resident_bytes" for name, _ in metrics)
