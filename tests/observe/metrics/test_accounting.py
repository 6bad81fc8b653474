"""Metrics of the accounting that other tests scrape: here what an empty machine has."""

from nri_numamem.engine.context import Context
from nri_numamem.engine.policy import Policy
from nri_numamem.engine.state import EngineState
from nri_numamem.numa import Machine, NumaNode
from nri_numamem.observe.metrics.accounting import accounting_metrics, container_metrics

GI = 1 << 30
CONTEXT = Context.of(Machine((NumaNode(0, GI), NumaNode(1, GI))), Policy())


def test_an_empty_machine_has_a_sample_per_node() -> None:
    state = EngineState(CONTEXT.empty_accounting())
    assert [m.samples[0].value for m in container_metrics(state)] == [0] * 6
    found = {m.name: m.samples for m in accounting_metrics(CONTEXT, state.accounting)}
    tables = {name for name, samples in found.items() if len(samples) == 2}
    assert {"nri_numamem_node_free_bytes", "nri_numamem_node_group_size"} <= tables
    largest = found["nri_numamem_largest_request_bytes"]
    free = sum(s.value for s in found["nri_numamem_node_free_bytes"])
    assert {s.labels["nodes"]: s.value for s in largest} == {"one": free / 2, "group": free}
