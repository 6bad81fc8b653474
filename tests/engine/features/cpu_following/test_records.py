"""Records of CPUs that follow memory of running and new containers."""

import pytest

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.features.cpu_following import records
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import Block, State
from nri_numamem.memorymanager.state import Assignments
from nri_numamem.numa import CpuSet, NodeSet

POD = PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
CONTAINER = Container("id", "s", "c")
NODES, CPUS = NodeSet({1}), CpuSet({4, 5})


@pytest.mark.parametrize("cause", ["", "too many"])
@pytest.mark.parametrize(
    ("cpus", "event"), [(CPUS, records.CpusSet), (CpuSet(), records.CpusNotSet)]
)
def test_a_choice(cpus: CpuSet, event: type[Record], cause: str) -> None:
    record = records.chosen(POD, CONTAINER, NODES, cpus, cause)
    assert isinstance(record, event)
    assert fields_of(record).get("cpus", "") == str(cpus)
    assert record.cause == cause


@pytest.mark.parametrize("is_known", [True, False])
def test_a_change(is_known: bool) -> None:
    holder = Holder("id", "s", ("u", "c"), cpus=CpuSet({4}))
    blocks: Assignments = {"u": {"c": (Block(NODES, "memory", 1),)}} if is_known else {}
    state = EngineState(State({}, blocks), pods={"s": POD} if is_known else {})
    record = records.changed(state, holder, CPUS)
    assert str(record.nodes) == ("1" if is_known else "")
    assert record.names.pod == ("p" if is_known else None)
    assert (record.cpus, record.previous_cpus) == (CPUS, holder.cpus)
