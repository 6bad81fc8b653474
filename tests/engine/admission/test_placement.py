"""The choice of nodes by the two managers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.admission.placement import (
    extended,
    nodes_of_live_others,
    place_by_hints,
    place_on_nodes,
    place_with_hint,
    resize,
)
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Container, ContainerKind, Hint, Pod, Rejection, State
from nri_numamem.memorymanager.accounting import adopt, mark_reusable
from nri_numamem.memorymanager.candidates import is_admissible
from nri_numamem.numa import Machine, NodeSet, NumaNode
from nri_numamem.topologymanager import Placement
from tests.engine.conftest import GI, MI, PAGE, SETTINGS, four_nodes

if TYPE_CHECKING:
    from nri_numamem.engine.core.events import PodSandbox
    from tests.engine.conftest import Host, NewHost

KEY = ("u", "c")
SMALL = {"memory": 200 * MI}
POD = Pod("u", guaranteed=True, containers=(Container("c", ContainerKind.APP, SMALL),))


def context(policy: str = "best-effort") -> Context:
    return new_context(four_nodes(), replace(SETTINGS, topology_manager_policy=policy))


def placed(found: Placement | Rejection) -> Placement:
    assert isinstance(found, Placement), found
    return found


def test_the_best_nodes_win() -> None:
    made = context()
    found = placed(place_by_hints(made, made.empty_accounting(), KEY, SMALL))
    assert (found.nodes, found.hint) == (NodeSet([0]), Hint(NodeSet([0]), preferred=True))
    assert found.accounting.assignments.keys() == {"u"}


@pytest.mark.parametrize("cpus", [None, "0", "1", "0-1"])
def test_a_restart_keeps_the_nodes_that_another_policy_gave(cpus: str | None) -> None:
    """A container on two nodes returns to them, though the policy admits one."""
    made, nodes = context("single-numa-node"), NodeSet([0, 1])
    others = NO_OTHER_PROVIDERS if cpus is None else OtherProviders(cpu=NodeSet.parse(cpus))
    running = adopt(made.empty_accounting(), *KEY, nodes, SMALL).state
    ended = mark_reusable(running, *KEY)
    for accounting in (running, ended):
        found = placed(place_by_hints(made, accounting, KEY, SMALL, others))
        assert (found.nodes, found.hint) == (nodes, Hint(nodes, preferred=False))
        assert found.accounting.blocks(*KEY) == running.blocks(*KEY)


def test_a_restart_with_cpus_elsewhere_is_refused() -> None:
    made = context("single-numa-node")
    accounting = adopt(made.empty_accounting(), *KEY, NodeSet([0, 1]), SMALL).state
    found = place_by_hints(made, accounting, KEY, SMALL, OtherProviders(cpu=NodeSet([2])))
    assert isinstance(found, Rejection)


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


def nine_each(*, distances: bool = False) -> Context:
    rows = {0: {0: 10, 1: 12, 2: 21}, 1: {0: 12, 1: 10, 2: 21}, 2: {0: 21, 1: 21, 2: 10}}
    nodes = (NumaNode(n, 9 * GI, distances=rows[n] if distances else {}) for n in rows)
    return new_context(Machine(tuple(nodes)), replace(SETTINGS, reserved_memory=()))


def on_group(made: Context) -> State:
    """Return the accounting with 12Gi on the group 0-1: node 0 is full, node 1 has 6Gi free."""
    empty = made.empty_accounting()
    return placed(place_by_hints(made, empty, ("old", "c"), {"memory": 12 * GI})).accounting


@pytest.mark.parametrize(
    ("cpu", "nodes"),
    [
        ("0", "0-1"),
        ("1", "0-1"),
        ("2", "2"),
        ("0-1", "0-1"),
        # Node 2 has CPUs of the container as well, and is enough.
        ("1-2", "2"),
        # The merged hint is node 0, which is full: it is extended, as in the kubelet.
        ("0,2", "0-1"),
    ],
)
def test_memory_follows_cpus_into_a_group(cpu: str, nodes: str) -> None:
    made = nine_each()
    others = OtherProviders(cpu=NodeSet.parse(cpu))
    found = place_by_hints(made, on_group(made), KEY, {"memory": 2 * GI}, others)
    assert str(placed(found).nodes) == nodes


def test_a_group_that_is_too_full_is_not_chosen() -> None:
    made = nine_each()
    others = OtherProviders(cpu=NodeSet([1]))
    found = place_by_hints(made, on_group(made), KEY, {"memory": 7 * GI}, others)
    assert str(placed(found).nodes) == "2"
    found = place_by_hints(made, on_group(made), KEY, {"memory": 10 * GI}, others)
    assert isinstance(found, Rejection)


def test_memory_follows_devices_into_a_group() -> None:
    made = nine_each()
    both = OtherProviders(devices=(NodeSet([1]),), cpu=NodeSet([0, 1]))
    found = place_by_hints(made, on_group(made), KEY, {"memory": 2 * GI}, both)
    assert str(placed(found).nodes) == "0-1"


@pytest.mark.parametrize("distances", [False, True])
def test_memory_shares_a_node_with_the_cpus_wherever_a_set_of_nodes_does(distances: bool) -> None:
    """All accountings of up to two containers, all CPU hints, all sizes, on three nodes."""
    made = nine_each(distances=distances)
    sets = [NodeSet.from_mask(mask) for mask in range(1, 8)]
    sizes = [{"memory": size * GI} for size in (2, 5, 8, 11, 20)]
    compared = 0
    for accounting in _accountings(made):
        for cpu, resources in product(sets, sizes):
            admissible = [s for s in sets if is_admissible(accounting, KEY[0], resources, s)]
            found = place_by_hints(made, accounting, KEY, resources, OtherProviders(cpu=cpu))
            if not admissible:
                assert isinstance(found, Rejection)
                continue
            nodes = placed(found).nodes
            place = (accounting.machine_state, cpu, resources)
            assert nodes in admissible, place
            is_remote = all(each.isdisjoint(cpu) for each in admissible)
            assert nodes.isdisjoint(cpu) is is_remote, place
            compared += 1
    assert compared > 3_000


def _accountings(made: Context) -> Iterator[State]:
    """Yield the accountings of up to two containers with hints of one or two nodes."""
    empty = made.empty_accounting()
    hints = [OtherProviders(cpu=NodeSet.from_mask(mask)) for mask in (1, 2, 4, 3, 5, 6)]
    sizes = (3, 7, 12)
    for first, second in product(product(hints, sizes), repeat=2):
        accounting = empty
        for uid, (others, size) in (("a", first), ("b", second)):
            found = place_by_hints(made, accounting, (uid, "c"), {"memory": size * GI}, others)
            if isinstance(found, Placement):
                accounting = found.accounting
        yield accounting


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


def nodes_of(host: Host, pod: PodSandbox, name: str, size: int | None, cpus: str = "") -> str:
    """Create a container of some MiB; return its nodes."""
    adjustment = host.create(pod, name, size and size * MI, cpus=cpus).adjustment
    assert adjustment is not None
    return adjustment.cpuset_mems


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_hugepages_of_the_pod_come_before_hints(new_host: NewHost, scope: str) -> None:
    host = new_host(replace(SETTINGS, topology_manager_scope=scope))
    pod = host.run("a", hugepages={PAGE: 2 * PAGE})
    assert nodes_of(host, pod, "one", 100, cpus="0") == "0"
    assert nodes_of(host, pod, "two", 100, cpus="8") == "0"


def test_a_strict_policy_keeps_a_container_near_its_cpus(new_host: NewHost) -> None:
    host = new_host(replace(SETTINGS, topology_manager_policy="restricted"))
    pod = host.run("a", hugepages={PAGE: 2 * PAGE})
    assert nodes_of(host, pod, "one", 100, cpus="0") == "0"
    assert nodes_of(host, pod, "two", 100, cpus="8") == "2"


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_memory_that_is_shared_comes_before_hints(new_host: NewHost, scope: str) -> None:
    host = new_host(replace(SETTINGS, topology_manager_scope=scope))
    pod = host.run("a", memory=400 * MI)
    assert nodes_of(host, pod, "one", 100, cpus="0") == "0"
    assert nodes_of(host, pod, "two", None, cpus="8") == "0"


def test_else_hints_lead_in_container_scope(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    assert nodes_of(host, pod, "one", 100, cpus="0") == "0"
    assert nodes_of(host, pod, "two", 100, cpus="8") == "2"


def test_only_live_containers_count_each_set_once(host: Host) -> None:
    pod = host.run("a")
    for name, cpus in (("one", "0-3"), ("two", "4-7"), ("three", "4-7"), ("four", "8-11")):
        host.create(pod, name, 100 * MI, cpus=cpus)
    host.stop(host.newest("four"))
    found = nodes_of_live_others(host.engine.state, ("a", "one"))
    assert found == [NodeSet([1])]


def test_a_set_that_cannot_be_extended_is_passed_over(host: Host) -> None:
    host.create(host.run("other"), "main", 100 * MI)
    pod = host.run("a")
    host.create(pod, "one", 100 * MI, cpus="0-3")
    host.create(pod, "two", 100 * MI, cpus="4-7")
    context, state = host.engine.context, host.engine.state
    sets = [NodeSet([0]), NodeSet([1])]
    found = extended(context, state, ("a", "three"), {"memory": 1000 * MI}, sets)
    assert found is not None
    assert str(found[1]) == "1-2"
    assert extended(context, state, ("a", "three"), {"memory": 1 << 40}, sets) is None
