"""A restored state gets the accounting that the engine had when it was written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.rebuilt import rebuilt
from nri_numamem.memorymanager import State, check_accounting
from nri_numamem.numa import NodeSet
from tests.engine.conftest import four_nodes
from tests.sequences.on_engine import life_on

if TYPE_CHECKING:
    from nri_numamem.engine.core.state import EngineState
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI


def read_back(host: Host) -> EngineState:
    restored = restore(snapshot(host.engine.state))
    return rebuilt(host.engine.context, restored, host.engine.state.pods.values())


def figures(state: EngineState) -> dict[int, tuple[object, ...]]:
    """Return blocks, group and free bytes per node; free bytes as sums over the node's group."""
    machine = state.accounting.machine_state
    return {
        node_id: (
            node.number_of_assignments,
            node.cells,
            {
                name: sum(machine[member].memory_map[name].free for member in node.cells)
                for name in node.memory_map
            },
        )
        for node_id, node in machine.items()
    }


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_the_same_accounting(new_host: NewHost, seed: int, scope: str) -> None:
    host = new_host(Policy(topology_manager_scope=scope))
    life = life_on(host, seed)
    for _ in range(60):
        life.step()
        after, expected = read_back(host), host.engine.state
        assert check_accounting(after.accounting) == ()
        assert after.holders == expected.holders
        assert after.keys == expected.keys
        assert after.accounting.reusable.keys() == expected.accounting.reusable.keys()
        assert figures(after) == figures(expected)


def test_sandboxes_are_those_that_are_given(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    restored = restore(snapshot(host.engine.state))
    assert rebuilt(host.engine.context, restored).pods == {}
    assert read_back(host).pods == {pod.sandbox_id: pod}


def test_an_engine_can_continue(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, hugepages={PAGE: 2 * PAGE})
    engine = Engine.with_state(host.engine.context, read_back(host))
    before = host.free()
    host.engine = engine
    host.stop_pod(pod)
    host.remove_pod(pod)
    assert sum(host.free()) == sum(before) + 200 * MI


def test_nodes_that_are_gone_hold_nothing(new_host: NewHost) -> None:
    host = new_host()
    host.create(host.run("a"), memory=1200 * MI)
    restored = restore(snapshot(host.engine.state))
    machine = four_nodes()
    smaller = Context.of(type(machine)(machine.nodes[1:]), Policy())
    after = rebuilt(smaller, restored)
    assert after.blocks(("a", "main")) is not None
    assert after.accounting.machine_state[1].cells == NodeSet([1])
    assert check_accounting(after.accounting) == ()


def test_a_container_without_blocks_is_left_out(host: Host) -> None:
    host.create(host.run("a"))
    state = restore(snapshot(host.engine.state))
    empty = replace(state, accounting=State({}, {"a": {"main": ()}}))
    after = rebuilt(host.engine.context, empty)
    assert after.holders == {}
    assert after.accounting.assignments == {}
