"""The choice of nodes by the two managers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nri_numamem.engine.context import Context
from nri_numamem.engine.placement import (
    hints_for_container,
    place_by_hints,
    place_on_nodes,
    place_with_hint,
    resize,
)
from nri_numamem.engine.providers import OtherProviders
from nri_numamem.memorymanager import Container, ContainerKind, Hint, Pod, Rejection
from nri_numamem.numa import Machine, NodeSet, NumaNode
from nri_numamem.topologymanager import Placement
from tests.engine.conftest import GI, MI, SETTINGS, four_nodes

KEY = ("u", "c")
SMALL = {"memory": 200 * MI}
POD = Pod("u", guaranteed=True, containers=(Container("c", ContainerKind.APP, SMALL),))


def context(policy: str = "best-effort") -> Context:
    return Context.of(four_nodes(), replace(SETTINGS, topology_manager_policy=policy))


def placed(found: Placement | Rejection) -> Placement:
    assert isinstance(found, Placement), found
    return found


def test_the_best_nodes_win() -> None:
    made = context()
    found = placed(place_by_hints(made, made.empty_accounting(), KEY, SMALL))
    assert (found.nodes, found.hint) == (NodeSet([0]), Hint(NodeSet([0]), preferred=True))
    assert found.accounting.assignments.keys() == {"u"}


def test_previous_nodes_win_among_equal_sets() -> None:
    made, before = context(), NodeSet([3])
    accounting = made.empty_accounting()
    found = placed(place_by_hints(made, accounting, KEY, SMALL, previous_nodes=before))
    assert found.nodes == before


def test_devices_are_ignored_first_if_hints_have_no_common_node() -> None:
    made = context()
    others = OtherProviders(devices=(NodeSet([1]),), cpu=NodeSet([2]))
    found = placed(place_by_hints(made, made.empty_accounting(), KEY, SMALL, others))
    assert found.nodes == NodeSet([2])


def test_a_strict_policy_ignores_no_provider() -> None:
    made = context("restricted")
    others = OtherProviders(devices=(NodeSet([1]),), cpu=NodeSet([2]))
    found = place_by_hints(made, made.empty_accounting(), KEY, SMALL, others)
    assert isinstance(found, Rejection)


def test_nodes_that_are_too_full_get_more_nodes_around_them() -> None:
    made = context()
    accounting = made.empty_accounting()
    assert placed(place_on_nodes(made, accounting, KEY, SMALL, NodeSet([2]))).nodes == NodeSet([2])
    large = {"memory": GI}
    found = placed(place_on_nodes(made, accounting, KEY, large, NodeSet([2])))
    assert found.nodes == NodeSet([2, 3])


def test_an_explicit_hint_is_followed() -> None:
    made = context()
    hint = Hint(NodeSet([1]), preferred=True)
    assert placed(place_with_hint(made, made.empty_accounting(), POD, "c", hint)).hint == hint


@pytest.mark.parametrize(("nodes", "count"), [(4, 15), (17, 1)])
def test_hints_of_large_machines_are_those_that_decide_a_merge(nodes: int, count: int) -> None:
    machine = Machine(tuple(NumaNode(node, GI) for node in range(nodes)))
    made = Context.of(machine, replace(SETTINGS, reserved_memory=()))
    hints = hints_for_container(made, made.empty_accounting(), POD, "c")
    assert hints is not None
    assert len(hints["memory"]) == count


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [
        ("none", "0-1"),
        ("best-effort", "0-1"),
        ("restricted", "0-1"),
        ("single-numa-node", "0"),
    ],
)
def test_the_policy_limits_what_a_resize_may_take(policy: str, nodes: str) -> None:
    made = context(policy)
    accounting = placed(place_by_hints(made, made.empty_accounting(), KEY, SMALL)).accounting
    resized = resize(made, accounting, KEY, GI)
    assert str(resized.nodes) == nodes
    assert bool(resized.shortfall) == (nodes == "0")
