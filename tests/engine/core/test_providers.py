"""Where a container's CPUs and devices are, and how its memory follows them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.events import Container
from nri_numamem.engine.core.plan import Adjustment, Plan, Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders, other_providers_of
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Hint, Reservation
from nri_numamem.numa import (
    CpuSet,
    Machine,
    MemoryNodes,
    NodeClass,
    NodeSet,
    NumaNode,
    WithoutCpus,
    classify,
)
from tests.engine.conftest import Answer

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
STRICT = ["restricted", "single-numa-node"]


def settings(policy: str) -> Policy:
    return Policy(reserved_memory=RESERVED, topology_manager_policy=policy)


def machine() -> Machine:
    """Nodes 0-2 have four CPUs each, node 3 has none."""
    cpus = {0: "0-3", 1: "4-7", 2: "8-11", 3: ""}
    return Machine(
        tuple(NumaNode(node, 1 << 30, cpus=CpuSet.parse(found)) for node, found in cpus.items())
    )


def seen(
    cpus: str = "",
    shares: int | None = None,
    *devices: str,
    without_cpus: WithoutCpus = WithoutCpus.USE,
) -> OtherProviders:
    nodes = tuple(NodeSet.parse(text) for text in devices)
    container = Container("c", "s", "main", cpuset_cpus=cpus, cpu_shares=shares, device_nodes=nodes)
    classification = classify(machine(), MemoryNodes(without_cpus))
    return other_providers_of(machine(), classification, container)


@pytest.mark.parametrize(
    ("cpus", "shares", "expected"),
    [
        pytest.param("", None, None, id="not-set"),
        pytest.param("4-5", 2048, "1", id="own"),
        pytest.param("4", 100, "1", id="pool-on-one-node"),
        pytest.param("0, 4", 2048, "0-1", id="own-on-two-nodes"),
        pytest.param("0,4", None, "0-1", id="on-two-nodes"),
        pytest.param("0-7", 512, None, id="pool-on-two-nodes"),
        pytest.param("0,4,8", 3072, "0-2", id="own-on-every-node-with-cpus"),
        pytest.param("0-11", None, "0-2", id="own-are-all"),
        pytest.param("0-11", 512, None, id="pool-is-all"),
        pytest.param("99", None, None, id="not-of-this-machine"),
        *(
            pytest.param(text, None, None, id=text)
            for text in ("4-", "5-4", "x", "4,,5", "0-9999", "99999", "²")
        ),
    ],
)
def test_nodes_of_cpus(cpus: str, shares: int | None, expected: str | None) -> None:
    cpu = seen(cpus, shares).cpu
    assert (None if cpu is None else str(cpu)) == expected


@pytest.mark.parametrize(
    ("devices", "hint"),
    [
        (["1"], Hint(NodeSet([1]), preferred=True)),
        (["1", "1"], Hint(NodeSet([1]), preferred=True)),
        (["0-1", "1"], Hint(NodeSet([1]), preferred=False)),
        (["0", "1"], Hint(NodeSet([0, 1]), preferred=False)),
    ],
)
def test_the_hint_of_devices(devices: list[str], hint: Hint) -> None:
    assert seen("", None, *devices).providers() == ({"devices": (hint,)},)


def test_nodes_that_the_machine_does_not_have_do_not_count() -> None:
    assert seen("", None, "7", "2,7").devices == (NodeSet([2]),)
    assert seen("", None, "7") == NO_OTHER_PROVIDERS


def test_devices_come_before_cpus() -> None:
    others = seen("4", 1024, "0", "2")
    assert [next(iter(answer or ())) for answer in others.providers()] == ["devices", "cpu"]
    assert str(others) == "cpu on node 1, devices on nodes 0,2"
    assert others.is_disjoint_from(NodeSet([0, 2]))
    assert not others.is_disjoint_from(NodeSet([0, 1, 2]))
    assert not NO_OTHER_PROVIDERS.is_disjoint_from(NodeSet([0]))


def other_hints(answer: Answer) -> dict[str, object]:
    """Return the hints in the record, without those of the memory manager."""
    hints = fields_of(answer.records[0])["hints"]
    assert isinstance(hints, dict)
    return {provider: hint for provider, hint in hints.items() if provider != "memory"}


@pytest.mark.parametrize("policy", ["best-effort", *STRICT])
def test_memory_follows_cpus_and_devices(new_host: NewHost, policy: str) -> None:
    host = new_host(settings(policy))
    plan = host.create(host.run("a"), cpus="8-9")
    assert plan.adjustment == Adjustment("2")
    assert other_hints(plan) == {"cpu": "2"}
    assert host.create(host.run("b"), devices=["3"]).adjustment == Adjustment("3")
    plan = host.create(host.run("c"), devices=["1", "1"], cpus="4")
    assert plan.adjustment == Adjustment("1")
    assert other_hints(plan) == {"cpu": "1", "devices": ["1", "1"]}
    assert other_hints(host.create(host.run("d"))) == {}


def test_with_policy_none_nothing_is_merged(new_host: NewHost) -> None:
    host = new_host(settings("none"))
    plan = host.create(host.run("a"), cpus="8-9", devices=["3"])
    assert plan.adjustment == Adjustment("0")
    assert other_hints(plan) == {}


def fill(host: Host, node: int) -> None:
    cpus = f"{4 * node}"
    assert host.create(host.run(f"full{node}"), memory=900 * MI, cpus=cpus).refusal is None


def test_best_effort_uses_another_node_if_the_node_is_full(host: Host) -> None:
    """The kubelet refuses such a container: its hint would mix groups."""
    fill(host, 2)
    assert host.create(host.run("a"), cpus="8-9").adjustment == Adjustment("0")


@pytest.mark.parametrize("policy", STRICT)
def test_strict_policies_refuse_if_the_node_is_full(new_host: NewHost, policy: str) -> None:
    host = new_host(settings(policy))
    fill(host, 2)
    pod = host.run("a")
    plan = host.create(pod, cpus="8-9", devices=["2"])
    assert plan.refusal is not None
    assert plan.refusal.startswith(
        "numamem: container main of pod ns/pod-a refused, "
        f"TopologyAffinityError (topologyManagerPolicy {policy}) with cpu on node 2, devices on "
        "node 2: requested memory "
    )
    assert other_hints(plan) == {"cpu": "2", "devices": ["2"]}
    assert host.create(pod).adjustment == Adjustment("0")


def test_memory_follows_the_cpus_if_cpus_and_devices_conflict(host: Host) -> None:
    plan = host.create(host.run("a"), cpus="8", devices=["1"])
    assert plan.adjustment == Adjustment("2")
    fill(host, 3)
    # Neither decides: the device is ignored first, and node 3 is full.
    assert host.create(host.run("b"), cpus="12", devices=["1"]).adjustment == Adjustment("0")


@pytest.mark.parametrize("policy", STRICT)
def test_strict_policies_refuse_conflicting_cpus_and_devices(
    new_host: NewHost, policy: str
) -> None:
    host = new_host(settings(policy))
    refusal = host.create(host.run("a"), cpus="8", devices=["1"]).refusal or ""
    assert f"{policy}) with cpu on node 2, devices on node 1: " in refusal
    refusal = host.create(host.run("b"), devices=["1", "2"]).refusal or ""
    assert f"{policy}) with devices on nodes 1-2: " in refusal


def test_devices_on_two_nodes_have_the_memory_near_both(host: Host) -> None:
    assert host.create(host.run("a"), devices=["2", "3"]).adjustment == Adjustment("2-3")


def test_a_container_found_unpinned_follows_its_cpus(host: Host) -> None:
    host.create(host.run("a"))
    unseen = replace(
        host.newest(), container_id="unseen", name="second", cpuset_mems="", cpuset_cpus="12-13"
    )
    host.containers["unseen"] = unseen
    plan: Plan = host.synchronize()
    assert plan.updates == (Update("unseen", "3"),)


def test_devices_matter_only_to_policies_that_merge_hints(new_host: NewHost) -> None:
    guaranteed, burstable = "/kubepods/poduid", "/kubepods/burstable/poduid"
    for policy, expected in (("best-effort", True), ("none", False)):
        context = new_host(settings(policy)).engine.context
        assert context.wants_devices(guaranteed) is expected
        assert not context.wants_devices(burstable)
    unmanaged = replace(settings("best-effort"), memory_manager_policy="None")
    assert not new_host(unmanaged).engine.context.wants_devices(guaranteed)


@pytest.mark.parametrize(("policy", "nodes"), [("best-effort", "0"), ("restricted", "2")])
def test_only_strict_policies_prefer_cpus_to_the_pods_hugepages(
    new_host: NewHost, policy: str, nodes: str
) -> None:
    page = 2 * MI
    host = new_host(settings(policy))
    pod = host.run("a", hugepages={page: 4 * page})
    assert (host.create(pod, "one").adjustment or Adjustment()).cpuset_mems == "0"
    assert (host.create(pod, "two", cpus="8").adjustment or Adjustment()).cpuset_mems == nodes


@pytest.mark.parametrize("action", [WithoutCpus.EXCLUDE, WithoutCpus.LAST_RESORT])
def test_a_device_on_a_node_without_cpus_counts_for_the_nearest_node(action: WithoutCpus) -> None:
    near_to_2 = {0: 40, 1: 30, 2: 20, 3: 10}
    nodes = [*machine().nodes[:3], replace(machine().nodes[3], distances=near_to_2)]
    made = Machine(tuple(nodes))
    container = Container("c", "s", "main", device_nodes=(NodeSet([3]), NodeSet([1, 3])))
    found = other_providers_of(made, classify(made, MemoryNodes(action)), container)
    assert found.devices == (NodeSet([2]), NodeSet([1, 2]))
    # Without distances, all nodes with CPUs are equally near.
    assert seen("", None, "3", without_cpus=action).devices == (NodeSet([0]),)


def test_cpus_of_an_excluded_node_count_for_the_nearest_node() -> None:
    settings = MemoryNodes(override={1: NodeClass.CPULESS})
    container = Container("c", "s", "main", cpuset_cpus="4-5")
    found = other_providers_of(machine(), classify(machine(), settings), container)
    assert found.cpu == NodeSet([0])


def test_cpus_on_every_used_node_are_no_preference() -> None:
    assert seen("0-11", None, without_cpus=WithoutCpus.EXCLUDE) == NO_OTHER_PROVIDERS
    others = OtherProviders((NodeSet([1]),), NodeSet([0, 1]))
    assert others.within(NodeSet([0, 1, 2])) == others
    assert others.within(NodeSet([0, 1])) == OtherProviders((NodeSet([1]),))
