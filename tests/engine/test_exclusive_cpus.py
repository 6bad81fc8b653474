"""Exclusive CPUs where nodes without CPUs have memory for containers, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.policy import Policy
from nri_numamem.memorymanager import HostReservation
from nri_numamem.numa import CpuSet, Machine, MemoryNodes, NumaNode, WithoutCpus

if TYPE_CHECKING:
    from tests.engine.conftest import Answer, Host, NewHost

MI = 1 << 20
ACTIONS = [WithoutCpus.USE, WithoutCpus.LAST_RESORT]
STRICT = ["single-numa-node", "restricted"]
SCOPES = ["container", "pod"]
EXCLUSIVE = {"cpus": "2-3", "cpu_shares": 2048}
"""Of a container that requests two CPUs."""
POOL = {"cpus": "0-3", "cpu_shares": 512}
"""Of a container that requests half a CPU."""

each_action = pytest.mark.parametrize("action", ACTIONS)
each_scope = pytest.mark.parametrize("scope", SCOPES)


def machine(with_cpus: int) -> Machine:
    """Return nodes with 1 GiB and four CPUs each, and one with 8 GiB and no CPUs."""
    near = tuple(
        NumaNode(node, 1 << 30, cpus=CpuSet(range(4 * node, 4 * node + 4)))
        for node in range(with_cpus)
    )
    return Machine((*near, NumaNode(with_cpus, 8 << 30)))


def made(
    new_host: NewHost,
    action: WithoutCpus,
    policy: str,
    scope: str = "container",
    with_cpus: int = 1,
) -> Host:
    settings = Policy(
        topology_manager_policy=policy,
        topology_manager_scope=scope,
        memory_nodes=MemoryNodes(action),
        host_reservation=HostReservation(eviction_hard={"memory.available": "0"}),
    )
    return new_host(settings, machine(with_cpus))


def create(host: Host, uid: str, size_mib: int, **options: object) -> Answer:
    pod = host.run(uid, memory=size_mib * MI)
    return host.create(pod, memory=size_mib * MI, **options)  # type: ignore[arg-type]


def nodes_of(answer: Answer) -> str:
    """Return the chosen nodes, or the reason of a refusal up to the amounts."""
    if answer.refusal is not None:
        return answer.refusal.partition(" refused, ")[2].partition(": ")[0]
    assert answer.adjustment is not None
    return answer.adjustment.cpuset_mems


def has_warning(answer: Answer) -> bool:
    return any(record.event == "misaligned" for record in answer.records)


@each_action
@each_scope
@pytest.mark.parametrize("policy", [*STRICT, "best-effort"])
def test_memory_is_on_the_node_of_exclusive_cpus(
    new_host: NewHost, action: WithoutCpus, scope: str, policy: str
) -> None:
    host = made(new_host, action, policy, scope)
    assert nodes_of(create(host, "a", 900, **EXCLUSIVE)) == "0"


@each_action
@each_scope
@pytest.mark.parametrize("policy", STRICT)
def test_strict_policies_refuse_exclusive_cpus_if_their_only_node_is_full(
    new_host: NewHost, action: WithoutCpus, scope: str, policy: str
) -> None:
    host = made(new_host, action, policy, scope)
    assert nodes_of(create(host, "full", 900)) == "0"
    refused = nodes_of(create(host, "a", 200, **EXCLUSIVE))
    assert refused == f"TopologyAffinityError (topologyManagerPolicy {policy}) with cpu on node 0"


@each_action
@each_scope
def test_best_effort_reports_exclusive_cpus_without_memory_beside_them(
    new_host: NewHost, action: WithoutCpus, scope: str
) -> None:
    host = made(new_host, action, "best-effort", scope)
    assert nodes_of(create(host, "full", 900)) == "0"
    answer = create(host, "a", 200, **EXCLUSIVE)
    assert nodes_of(answer) == "1"
    assert has_warning(answer)
    assert [str(holder.misaligned) for holder in host.engine.state.holders.values()].count(
        "cpu on node 0"
    ) == 1


@each_action
def test_best_effort_reports_a_container_that_was_there_before(
    new_host: NewHost, action: WithoutCpus
) -> None:
    host = made(new_host, action, "best-effort")
    assert has_warning(create(host, "a", 200, mems="1", **EXCLUSIVE))
    restarted = made(new_host, action, "best-effort")
    restarted.pods, restarted.containers = host.pods, host.containers
    assert has_warning(restarted.synchronize())


@each_action
@each_scope
@pytest.mark.parametrize("policy", [*STRICT, "best-effort"])
def test_the_shared_pool_is_no_hint(
    new_host: NewHost, action: WithoutCpus, scope: str, policy: str
) -> None:
    host = made(new_host, action, policy, scope)
    assert nodes_of(create(host, "full", 900)) == "0"
    answer = create(host, "a", 200, **POOL)
    assert nodes_of(answer) == "1"
    assert not has_warning(answer)


@each_action
def test_exclusive_cpus_on_all_nodes_that_have_cpus(new_host: NewHost, action: WithoutCpus) -> None:
    both = {"cpus": "2-5", "cpu_shares": 4096}
    for policy in STRICT:
        host = made(new_host, action, policy, with_cpus=2)
        for uid in "01":
            assert nodes_of(create(host, f"full{uid}", 900)) == uid
        reason = f"TopologyAffinityError (topologyManagerPolicy {policy}) with cpu on nodes 0-1"
        assert nodes_of(create(host, "a", 200, **both)) == reason
    host = made(new_host, action, "best-effort", with_cpus=2)
    # Beside all CPUs, as in the kubelet; without the last-resort node these are on all nodes.
    assert nodes_of(create(host, "a", 200, **both)) == ("0-1" if action == "use" else "0")


@pytest.mark.parametrize("policy", STRICT)
def test_a_last_resort_node_does_not_change_placements_on_the_others(
    new_host: NewHost, policy: str
) -> None:
    """CPUs on all nodes of a machine are no preference (docs/kubelet-differences.md)."""
    for action in (WithoutCpus.EXCLUDE, WithoutCpus.LAST_RESORT):
        host = made(new_host, action, policy, with_cpus=2)
        assert nodes_of(create(host, "a", 200, cpus="2-5", cpu_shares=4096)) == "0"
