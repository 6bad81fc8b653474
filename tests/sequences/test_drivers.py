"""Each kind of fault has a driver that plays it."""

from tests.faults.faults import FAULTS as OF_PROCESSES
from tests.lives.faults import KINDS as OF_VIRTUAL_MACHINES
from tests.sequences.node_life import FAULTS


def test_each_kind_of_fault_is_played() -> None:
    assert {*OF_PROCESSES, *OF_VIRTUAL_MACHINES} == FAULTS.keys()
    assert len(OF_VIRTUAL_MACHINES) == len({*OF_VIRTUAL_MACHINES})
