"""Rebalancing on a running engine: what may move, and the request that is tried again."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.queries.rebalance import ContainerFacts, placing, shares_of
from nri_numamem.memorymanager.rebalance import Share, find_plan
from nri_numamem.numa import CpuSet, NodeSet
from tests.engine.conftest import PAGE, SETTINGS, Host, four_nodes

MI = 1 << 20


def annotated(host: Host, uid: str, annotations: dict[str, str]) -> events.PodSandbox:
    pod = replace(host.run(uid), annotations=annotations)
    host.pods[pod.sandbox_id] = pod
    return pod


def shares(state: EngineState, facts: dict[str, ContainerFacts] | None = None) -> list[Share]:
    return [*shares_of(state, facts or {}, state.accounting.assignments)]


def test_a_share_is_what_a_pod_has_on_a_node(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, "init", 500 * MI, container_id="i")
    host.stop(host.newest("init"))
    host.create(pod, "app", 400 * MI, container_id="c1")
    host.create(pod, "side", 100 * MI, container_id="c2")
    host.create(host.run("group"), "big", 1500 * MI)
    facts = {"c1": ContainerFacts(7), "c2": ContainerFacts(5)}
    (share,) = shares(host.engine.state, facts)
    assert share == Share("a", 0, ("app", "side"), 12)
    (share,) = shares(host.engine.state, {"c1": ContainerFacts(7)})
    assert share.resident_bytes is None
    # What only ended containers have is no share.
    host.stop(host.newest("app"))
    host.stop(host.newest("side"))
    assert shares(host.engine.state) == []


def test_what_must_not_move(host: Host) -> None:
    host.create(host.run("pages"), container_id="c1", hugepages={PAGE: PAGE})
    host.create(host.run("device"), container_id="c2", devices=["0"])
    for number, uid in enumerate(("used", "cpus", "policy", "plain")):
        host.create(host.run(uid), container_id=f"c{number + 3}", memory=10 * MI)
    facts = {
        "c3": ContainerFacts(has_hugepages=True),
        "c4": ContainerFacts(has_own_cpus=True),
        "c5": ContainerFacts(has_policy=True),
        "c6": ContainerFacts(1),
    }
    expected = {
        "pages": "hugepages",
        "device": "devices",
        "used": "hugepages",
        "cpus": "CPUs of its own",
        "policy": "a memory policy",
        "plain": "",
    }
    for state in (host.engine.state, kept_in_snapshot(host.engine.state)):
        assert {s.uid: s.obstacle for s in shares(state, facts)} == expected


def test_cpus_that_the_plugin_set_are_no_obstacle(host: Host) -> None:
    host.create(host.run("a"), container_id="c1")
    state = host.engine.state
    facts = {"c1": ContainerFacts(has_own_cpus=True)}
    assert shares(state, facts)[0].obstacle == "CPUs of its own"
    (holder,) = state.holders.values()
    state = state.with_holder(replace(holder, cpus=CpuSet([0, 1])), state.accounting)
    for each in (state, kept_in_snapshot(state)):
        assert shares(each, facts)[0].obstacle == ""


def kept_in_snapshot(state: EngineState) -> EngineState:
    """Return the state with the holders and cpusets that its snapshot has."""
    restored = restore(snapshot(state))
    return replace(state, holders=restored.holders, cpusets=restored.cpusets)


@pytest.mark.parametrize(
    ("annotations", "consents"),
    [
        ({}, False),
        ({"movable.numamem.io": "true"}, True),
        ({"movable.numamem.io": "yes"}, False),
        ({"movable.numamem.io/container.app": "true"}, False),
        ({"movable.numamem.io": "true", "movable.numamem.io/container.side": "false"}, False),
    ],
)
def test_all_containers_of_a_share_must_consent(
    host: Host, annotations: dict[str, str], *, consents: bool
) -> None:
    pod = annotated(host, "a", annotations)
    host.create(pod, "app", 10 * MI)
    host.create(pod, "side", 10 * MI)
    for _ in range(2):
        state = host.engine.state
        assert [s.is_consented for s in shares(state)] == [consents]
        assert kept_in_snapshot(state).holders == state.holders
        host.synchronize()


def host_with(host: Host, policy: Policy) -> Host:
    """Return a host with another policy."""
    engine = type(host.engine)(Context.of(four_nodes(), policy))
    return Host(engine)


def test_nothing_helps_a_request_where_no_pod_can_move(host: Host) -> None:
    for number, memory in enumerate((400, 600, 600, 600)):
        host.create(host.run(f"p{number}"), memory=memory * MI)
    pod = host.run("new", memory=700 * MI)
    event = events.CreateContainer(pod, events.Container("n", pod.sandbox_id, "main", 700 * MI))
    assert host.handle(event).refusal is not None
    state = host.engine.state
    place = placing(host.engine.context, state, event)
    assert not find_plan(state.accounting, shares(state), place).moves


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_small_pod_makes_way_for_a_group(host: Host, scope: str) -> None:
    host = host_with(
        host,
        Policy(reserved_memory=SETTINGS.reserved_memory, topology_manager_scope=scope),
    )
    sizes = {"gone0": 900, "small": 300, "gone1": 600, "large": 900, "p3": 600}
    for uid, memory in sizes.items():
        host.create(host.run(uid, memory=memory * MI), container_id=uid, memory=memory * MI)
    for uid in ("gone0", "gone1"):
        host.stop_pod(host.pods[f"sandbox-{uid}"])
    placed = {uid: containers["main"] for uid, containers in host.placed().items()}
    assert placed == {"small": "1", "large": "2", "p3": "3"}
    new = host.run("new", memory=1200 * MI)
    event = events.CreateContainer(new, events.Container("n", new.sandbox_id, "main", 1200 * MI))
    state = host.engine.state
    place = placing(host.engine.context, state, event)
    assert place(state.accounting) is None
    plan = find_plan(state.accounting, shares(state, {"small": ContainerFacts(4)}), place)
    (move,) = plan.moves
    assert (move.share.uid, move.target, plan.nodes) == ("small", 3, NodeSet([0, 1]))
    assert (move.cost_bytes, move.assigned_bytes) == (4, 300 * MI)
    assert host.engine.state is state


def test_a_container_that_is_not_managed_fits(host: Host) -> None:
    pod = host.run("a", "burstable/")
    event = events.CreateContainer(pod, events.Container("n", pod.sandbox_id, "main", MI))
    place = placing(host.engine.context, host.engine.state, event)
    assert place(host.engine.state.accounting) == NodeSet()
