"""Metrics of nodes without CPUs."""

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.memorymanager import State, adopt
from nri_numamem.numa import CpuSet, Machine, MemoryNodes, NodeSet, NumaNode, WithoutCpus
from nri_numamem.observe.metrics.memory_nodes import (
    excluded_bytes,
    node_metrics,
    shortfall_bytes,
)

GI = 1 << 30
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
    assert excluded_bytes(made, state) == {"memory": GI // 2}
    assert shortfall_bytes(made, state) == {"memory": GI - free}
    excluded = list(node_metrics(made, state))[1]
    assert [(s.labels, s.value) for s in excluded.samples] == [({"resource": "memory"}, GI // 2)]


def test_a_container_on_both_kinds_of_nodes_counts_what_is_not_charged() -> None:
    made = context()
    free = made.empty_accounting().machine_state[0].table("memory").free
    state = accounting(made, {"a": NodeSet([0, 2])}, 2 * GI)
    assert excluded_bytes(made, state) == {"memory": 2 * GI - free}
    assert shortfall_bytes(made, state) == {"memory": 0}
