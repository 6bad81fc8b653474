"""The hints that ``simulate`` shows."""

from dataclasses import replace

import pytest

from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Container, ContainerKind, Pod
from nri_numamem.numa import Machine, NumaNode
from tests.engine.conftest import GI, MI, SETTINGS
from tests.laboratory.container_hints import hints_for_container

CONTAINER = Container("c", ContainerKind.APP, {"memory": 200 * MI})
POD = Pod("u", guaranteed=True, containers=(CONTAINER,))


@pytest.mark.parametrize(("nodes", "count"), [(4, 15), (17, 1)])
def test_hints_of_large_machines_are_those_that_decide_a_merge(nodes: int, count: int) -> None:
    machine = Machine(tuple(NumaNode(node, GI) for node in range(nodes)))
    made = new_context(machine, replace(SETTINGS, reserved_memory=()))
    hints = hints_for_container(made, made.empty_accounting(), POD, "c")
    assert hints is not None
    assert len(hints["memory"]) == count
