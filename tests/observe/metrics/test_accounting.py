"""Metrics of the accounting that other tests scrape: here what an empty machine has."""

import pytest

from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.numa import CpuFollowing, Machine, NumaNode, PodStrategies, Strategy
from nri_numamem.observe.metrics.accounting import (
    accounting_metrics,
    container_metrics,
    cpu_metrics,
)

GI = 1 << 30
CONTEXT = new_context(Machine((NumaNode(0, GI), NumaNode(1, GI))), Policy())


def test_an_empty_machine_has_a_sample_per_node() -> None:
    state = EngineState(CONTEXT.empty_accounting())
    assert [m.samples[0].value for m in container_metrics(state)] == [0] * 6
    found = {m.name: m.samples for m in accounting_metrics(CONTEXT, state.accounting)}
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
