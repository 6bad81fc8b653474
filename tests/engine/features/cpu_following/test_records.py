"""Records of CPUs that follow memory have the fields of their types."""

import pytest

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.features.cpu_following import records
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.records.table import EVENTS
from nri_numamem.memorymanager import Block, State
from nri_numamem.numa import CpuSet, NodeSet

POD = PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
CONTAINER = Container("id", "s", "c")
NODES, CPUS = NodeSet({1}), CpuSet({4, 5})


@pytest.mark.parametrize("cause", ["", "too many"])
@pytest.mark.parametrize(
    ("cpus", "event"), [(CPUS, EventName.CPUS_SET), (CpuSet(), EventName.CPUS_NOT_SET)]
)
def test_a_choice(cpus: CpuSet, event: EventName, cause: str) -> None:
    record = records.chosen(POD, CONTAINER, NODES, cpus, cause)
    assert record.event is event
    assert set(record.fields) <= set(EVENTS[event].fields)
    assert record.fields.get("cpus", "") == str(cpus)
    assert record.fields.get("cause", "") == cause


@pytest.mark.parametrize("is_known", [True, False])
def test_a_change(is_known: bool) -> None:
    holder = Holder("id", "s", ("u", "c"), cpus=CpuSet({4}))
    blocks = {"u": {"c": (Block(NODES, "memory", 1),)}} if is_known else {}
    state = EngineState(State({}, blocks), pods={"s": POD} if is_known else {})
    record = records.changed(state, holder, CPUS)
    assert set(record.fields) <= set(EVENTS[record.event].fields)
    assert record.fields["nodes"] == ("1" if is_known else "")
    assert record.fields.get("pod") == ("p" if is_known else None)
    assert (record.fields["cpus"], record.fields["previous_cpus"]) == ("4-5", "4")


def test_the_kubelets_cpu_manager() -> None:
    assert records.left_to_kubelet(is_static=True).event is EventName.CPUS_LEFT_TO_KUBELET
    assert records.left_to_kubelet(is_static=False).event is EventName.CPUS_FOLLOW_MEMORY
