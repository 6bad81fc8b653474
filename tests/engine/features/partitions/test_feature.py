"""Pods and containers on an engine with partitions, as a runtime reports them."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.setup import new_context
from nri_numamem.numa import (
    CpuSet,
    Exclusive,
    MemoryNodes,
    MemoryPolicies,
    NodeSet,
    Partition,
    PolicyMode,
    Strategy,
    WithoutCpus,
)
from tests.engine.conftest import GI, MI, SETTINGS, Answer, Host, NewHost, four_nodes

WEB = Partition("web", NodeSet([2, 3]), namespaces=("web", "web-*"), exclusive=Exclusive.GUARANTEED)
BURSTABLE, BEST_EFFORT = "burstable/", "besteffort/"


def policy_of(*partitions: Partition, **settings: object) -> Policy:
    return replace(SETTINGS, partitions=partitions, **settings)  # type: ignore[arg-type]


def events_of(answer: Answer) -> list[str]:
    return [record.event for record in answer.records]


def mems_of(
    host: Host,
    namespace: str,
    qos: str = "",
    memory: int = 200 * MI,
    labels: dict[str, str] | None = None,
) -> str:
    """Create a pod with one container; return its nodes, "" for none, "refused" for a refusal."""
    uid = f"p{len(host.answers)}"
    pod = host.run(uid, qos, memory=None if qos else memory, namespace=namespace, labels=labels)
    answer = host.create(pod, memory=None if qos == BEST_EFFORT else memory)
    if answer.refusal is not None:
        return "refused"
    return answer.adjustment.cpuset_mems if answer.adjustment else ""


# Pinned containers


def test_pods_are_placed_on_the_nodes_of_their_partition(new_host: NewHost) -> None:
    host = new_host(policy_of(WEB))
    assert [mems_of(host, each) for each in ("web", "ns", "web-a")] == ["2", "0", "2"]
    assert mems_of(host, "web", memory=1500 * MI) == "refused"  # node 2 has single assignments
    assert [mems_of(host, each, memory=800 * MI) for each in ("web", "ns")] == ["3", "1"]
    assert [mems_of(host, each, memory=800 * MI) for each in ("web", "ns")] == ["refused"] * 2


def test_labels_select_a_partition(new_host: NewHost) -> None:
    host = new_host(policy_of(Partition("db", NodeSet([1]), selector={"app": "db"})))
    assert mems_of(host, "ns", labels={"app": "db"}) == "1"
    assert mems_of(host, "ns", labels={"app": "web"}) == "0"


def test_a_count_takes_the_closest_nodes(new_host: NewHost) -> None:
    host = new_host(policy_of(Partition("two", count=2, namespaces=("two",)), replace(WEB)))
    assert mems_of(host, "two", memory=1500 * MI) == "0-1"


def test_a_partition_that_is_not_exclusive_shares_its_nodes(new_host: NewHost) -> None:
    host = new_host(policy_of(Partition("db", NodeSet([0]), namespaces=("db",))))
    assert [mems_of(host, each, memory=500 * MI) for each in ("ns", "db")] == ["0", "refused"]
    assert mems_of(host, "db", memory=300 * MI) == "0"


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_refusal_names_the_partition_and_what_is_free_outside(
    new_host: NewHost, scope: str
) -> None:
    host = new_host(policy_of(WEB, topology_manager_scope=scope))
    web = host.create(host.run("a", memory=3 * GI, namespace="web"), memory=3 * GI)
    assert web.refusal is not None
    assert "partition web has nodes 2-3; memory 1.82Gi free on other NUMA nodes" in web.refusal
    other = host.create(host.run("b", memory=3 * GI), memory=3 * GI)
    assert other.refusal is not None
    assert "nodes 0-1; memory 1.82Gi free on other NUMA nodes" in other.refusal
    assert "partition web" not in other.refusal


def test_a_pod_that_several_partitions_match_has_the_first(new_host: NewHost) -> None:
    both = Partition("both", NodeSet([0]), namespaces=("web",))
    host = new_host(policy_of(WEB, both))
    pod = host.run("a", namespace="web")
    (record,) = host.ran.records
    fields = fields_of(record)
    assert record.event == "partition_ambiguous"
    assert (fields["partition"], fields["others"]) == ("web", ["both"])
    assert host.create(pod).adjustment == Adjustment("2")
    host.run("b", namespace="web-a")
    assert host.ran.records == ()


# A machine without the nodes


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_only_the_pods_of_an_unusable_partition_are_refused(new_host: NewHost, scope: str) -> None:
    lost = replace(WEB, nodes=NodeSet([3, 4]))
    host = new_host(policy_of(lost, topology_manager_scope=scope))
    answer = host.create(host.run("a", memory=200 * MI, namespace="web"))
    assert answer.refusal is not None
    assert "partition web is unusable: NUMA node 4 cannot be used on this machine" in answer.refusal
    assert "remedy: " not in answer.refusal
    assert host.placed() == {}
    assert [mems_of(host, "ns", memory=800 * MI) for _ in range(4)] == ["0", "1", "2", "3"]
    unpinned = new_host(policy_of(lost, when_unsatisfiable="RunUnpinned"))
    assert [mems_of(unpinned, each) for each in ("web", "ns")] == ["", "0"]


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_an_unusable_partition_with_cpus_and_devices(
    new_host: NewHost, policy: str, strategy: Strategy
) -> None:
    lost = replace(WEB, nodes=NodeSet([4]))
    settings = policy_of(lost, topology_manager_policy=policy, placement_strategy=strategy)
    host = new_host(settings)
    pod = host.run("a", memory=400 * MI, namespace="web")
    answer = host.create(pod, cpus="0-3", devices=["1"])
    assert answer.refusal is not None
    assert "NUMA node 4 cannot be used" in answer.refusal


def test_an_unusable_partition_is_a_warning(new_host: NewHost) -> None:
    lost = replace(WEB, nodes=NodeSet([4]))
    context = new_host(policy_of(lost)).engine.context
    (record,) = [r for r in context.start_records("1") if r.event == "partition_unusable"]
    assert fields_of(record)["cause"] == "NUMA node 4 cannot be used on this machine"
    none = new_host(policy_of(WEB)).engine.context
    off = new_host(policy_of(lost, memory_manager_policy="None")).engine.context
    for context in (none, off):
        assert "partition_unusable" not in [r.event for r in context.start_records("1")]


def test_a_machine_that_gets_the_nodes_has_the_partition(new_host: NewHost) -> None:
    machine = four_nodes()
    small = replace(machine, nodes=machine.nodes[:2])
    host = new_host(replace(policy_of(WEB), reserved_memory=SETTINGS.reserved_memory[:2]), small)
    assert mems_of(host, "web") == "refused"
    host.handle(events.MachineChanged(machine))
    assert [mems_of(host, each) for each in ("web", "ns")] == ["2", "0"]


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("strategy", Strategy)
def test_a_partition_of_last_resort_nodes(
    new_host: NewHost, policy: str, strategy: Strategy
) -> None:
    machine = four_nodes()
    slow = replace(machine.nodes[3], cpus=CpuSet())
    machine = replace(machine, nodes=(*machine.nodes[:3], slow))
    partition = replace(WEB, nodes=NodeSet([3]))
    memory_nodes = MemoryNodes(WithoutCpus.LAST_RESORT)
    settings = policy_of(
        partition,
        memory_nodes=memory_nodes,
        topology_manager_policy=policy,
        placement_strategy=strategy,
    )
    host = new_host(settings, machine)
    assert [mems_of(host, each, memory=800 * MI) for each in ("web", "web")] == ["3", "refused"]
    excluded = new_host(policy_of(partition, memory_nodes=MemoryNodes()), machine)
    assert mems_of(excluded, "web") == "refused"


@pytest.mark.parametrize(
    ("nodes", "expected"), [("1,3", "1,3"), ("3", "refused"), ("4", "refused"), ("1-3", "2-3")]
)
def test_equal_parts_on_nodes_of_the_partition(
    new_host: NewHost, nodes: str, expected: str
) -> None:
    policies = MemoryPolicies((PolicyMode.INTERLEAVE,), max_nodes=4, min_per_node_bytes=0)
    partition = replace(WEB, nodes=NodeSet.parse(nodes))
    host = new_host(policy_of(partition, memory_policies=policies))
    pod = host.run("a", namespace="web")
    container = events.Container("c", pod.sandbox_id, "main", 200 * MI)
    asked = PolicyRequest("interleave:2")
    answer = host.handle(events.CreateContainer(pod, container, None, asked))
    found = "refused" if answer.refusal else answer.adjustment and answer.adjustment.cpuset_mems
    assert found == expected


# Running pods


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_change_of_the_setting_moves_nothing_that_runs(new_host: NewHost, scope: str) -> None:
    before = new_host(policy_of(topology_manager_scope=scope))
    pod = before.run("a", memory=400 * MI, namespace="web")
    before.create(pod, "first")
    other = before.run("b", memory=400 * MI, namespace="web")
    assert before.create(other, "all", 400 * MI).adjustment == Adjustment("0")
    context = new_context(four_nodes(), policy_of(WEB, topology_manager_scope=scope))
    host = new_host()
    host.engine = Engine(context, before.engine.state)
    host.pods, host.containers = before.pods, before.containers
    answer = host.synchronize()
    assert answer.updates == ()
    assert host.placed()["a"]["first"] == host.placed()["b"]["all"] == "0"
    # A pod keeps the nodes that it has; a new pod gets those of the partition.
    assert host.create(pod, "second").adjustment == Adjustment("0")
    assert mems_of(host, "web") == "2"


def test_a_resize_stays_on_the_nodes_of_the_partition(new_host: NewHost) -> None:
    host = new_host(policy_of(replace(WEB, nodes=NodeSet([1, 3]))))
    host.create(host.run("a", namespace="web"), memory=600 * MI)
    answer = host.resize(host.newest(), 1500 * MI)
    assert [update.cpuset_mems for update in answer.updates] == ["1,3"]
    answer = host.resize(host.newest(), 3 * GI)
    assert answer.refusal is not None
    assert "partition web has nodes 1,3; memory 1.82Gi free on other NUMA nodes" in answer.refusal
    assert "remedy: request at most 1856Mi" in answer.refusal


def test_a_refused_resize_has_remedies_that_are_true(new_host: NewHost) -> None:
    host = new_host(policy_of(replace(WEB, nodes=NodeSet([3]))))
    host.create(host.run("a", namespace="web"), memory=300 * MI)
    first = host.newest()
    host.create(other := host.run("b", namespace="web"), memory=300 * MI)
    answer = host.resize(first, 700 * MI)
    assert answer.refusal is not None
    assert "partition web has node 3" in answer.refusal
    assert "remedy: " in answer.refusal
    host.stop_pod(other)
    assert host.resize(first, 700 * MI).refusal is None


def test_a_running_container_without_nodes_is_placed_in_its_partition(new_host: NewHost) -> None:
    host = new_host(policy_of(WEB))
    pod = host.run("a", namespace="web")
    use = events.CgroupUse(NodeSet(), memory_bytes={0: 50 * GI})
    for name in ("one", "two"):
        host.containers[name] = events.Container(
            name, pod.sandbox_id, name, 300 * MI, cgroup_mems=NodeSet(), cgroup_use=use
        )
    host.containers["two"] = replace(host.containers["two"], memory_limit_bytes=3 * GI)
    answer = host.synchronize()
    assert host.placed() == {"a": {"one": "2"}}
    unplaced = [r for r in answer.records if r.event == "running_unpinned_no_capacity"]
    assert "partition web has nodes 2-3" in str(fields_of(unplaced[0])["message"])


def test_a_found_container_is_placed_in_its_partition(new_host: NewHost) -> None:
    host = new_host(policy_of(WEB))
    pod = host.run("a", namespace="web")
    found = events.Container("x", pod.sandbox_id, "x", 300 * MI, cgroup_mems=NodeSet())
    host.handle(events.ContainersFound(((pod, found),)))
    assert host.placed() == {"a": {"x": "2"}}


def test_a_pod_that_returns_does_not_return_to_nodes_of_others(new_host: NewHost) -> None:
    before = new_host()
    pod = before.run("a", namespace="web")
    before.create(pod, cpus="4-7")
    assert before.placed() == {"a": {"main": "1"}}
    before.stop_pod(pod)
    host = new_host()
    host.engine = Engine(new_context(four_nodes(), policy_of(WEB)), before.engine.state)
    again = host.run("a", sandbox="again", namespace="web")
    assert host.create(again).adjustment == Adjustment("2")
