"""The sums of CPU requests per node, through the life of containers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.bulk_update import BulkUpdate
from nri_numamem.engine.core.cpu_requests import (
    RunningSums,
    cpu_requests,
    millicores_of,
    requested_millicores,
    shares_of,
    split_by_cpus,
)
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.engine.conftest import MI, SETTINGS, four_nodes

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost


def requests(host: Host) -> list[int]:
    """Return the millicores of each node."""
    return list(cpu_requests(host.engine.state, host.engine.context.machine).values())


def container(shares: int | None, limit: int | None = None) -> events.Container:
    return events.Container("id", "s", "c", cpu_shares=shares, cpu_limit_millicores=limit)


@pytest.mark.parametrize("millicores", [3, 100, 250, 999, 1000, 1001, 2500, 64_000, 256_000])
def test_shares_show_the_request_exactly(millicores: int) -> None:
    shares = millicores * 1024 // 1000  # MilliCPUToShares
    assert shares_of(millicores) == shares
    assert millicores_of(shares) == millicores
    assert requested_millicores(container(shares, 7)) == millicores


def test_the_kubelets_limits_of_shares() -> None:
    assert millicores_of(2) == 0
    assert (shares_of(0), shares_of(10**9)) == (2, 262_144)
    assert millicores_of(1 << 62) == 256_000


def test_without_shares_the_limit_counts() -> None:
    assert requested_millicores(container(None, 1500)) == 1500
    assert requested_millicores(container(None)) == 0


def test_a_request_counts_on_its_node_until_the_container_ends(host: Host) -> None:
    first, second = host.run("a"), host.run("b")
    host.create(first, cpu_shares=1024, cpus="4-5")
    host.create(second, cpu_shares=512, cpus="4-5")
    host.create(host.run("c"))
    assert requests(host) == [0, 1500, 0, 0]
    host.stop(host.containers["sandbox-a-main-0"])
    assert requests(host) == [0, 500, 0, 0]
    host.stop_pod(second)
    assert requests(host) == [0, 0, 0, 0]


def test_a_container_that_is_not_managed_does_not_count(host: Host) -> None:
    host.create(host.run("a", "burstable/"), cpu_shares=1024)
    assert requests(host) == [0, 0, 0, 0]


def test_a_group_shares_a_request_by_its_cpus(new_host: NewHost) -> None:
    """Node 0 has one CPU, node 1 has four."""
    first, *others = four_nodes().nodes
    host = new_host(machine=Machine((replace(first, cpus=CpuSet((0,))), *others)))
    host.create(host.run("a"), memory=1200 * MI, cpu_shares=1024)
    assert host.placed() == {"a": {"main": "0-1"}}
    assert requests(host) == [200, 800, 0, 0]


def test_nodes_without_cpus_have_no_share() -> None:
    assert split_by_cpus(1000, {0: 0, 1: 1, 2: 2}) == {1: 333, 2: 667}
    assert split_by_cpus(1000, {0: 0, 1: 0}) == {}


def test_a_node_that_the_machine_lost_has_no_sum(host: Host) -> None:
    host.create(host.run("a"), cpu_shares=1024)
    state = host.engine.state
    assert cpu_requests(state, Machine((NumaNode(2, 1 << 30),))) == {2: 0}


def update(host: Host, shares: int | None, memory: int | None = None) -> str | None:
    newest = host.newest()
    pod = host.pods[newest.sandbox_id]
    return host.handle(events.UpdateContainer(pod, newest, memory, shares)).refusal


def test_an_update_changes_the_request(host: Host) -> None:
    host.create(host.run("a"), cpu_shares=1024)
    update(host, 2048)
    assert requests(host) == [2000, 0, 0, 0]
    update(host, None)
    assert requests(host) == [2000, 0, 0, 0]
    update(host, 2048)
    assert requests(host) == [2000, 0, 0, 0]
    update(host, 512, 300 * MI)
    assert requests(host) == [500, 0, 0, 0]


def test_a_resize_onto_more_nodes_moves_the_request(host: Host) -> None:
    host.create(host.run("a"), cpu_shares=1024)
    update(host, 2048, 1200 * MI)
    assert requests(host) == [1000, 1000, 0, 0]


def test_a_refused_update_changes_nothing(host: Host) -> None:
    host.create(host.run("a"), cpu_shares=1024)
    assert update(host, 2048, 10_000 * MI) is not None
    assert requests(host) == [1000, 0, 0, 0]


def test_an_update_of_an_ended_container_changes_nothing(host: Host) -> None:
    host.create(host.run("a"), cpu_shares=1024)
    ended = host.newest()
    host.stop(ended)
    before = host.engine.state
    pod = host.pods[ended.sandbox_id]
    host.handle(events.UpdateContainer(pod, ended, cpu_shares=2048))
    assert host.engine.state == before


def test_synchronize_computes_the_sums_of_the_runtimes_containers(
    host: Host, new_host: NewHost
) -> None:
    host.create(host.run("a"), cpu_shares=1024)
    host.create(host.run("b"), cpu_shares=3072, cpus="8-11", memory=100 * MI)
    again = new_host()
    again.pods, again.containers = host.pods, host.containers
    again.synchronize()
    assert requests(again) == requests(host) == [1000, 0, 3000, 0]


def test_a_container_that_ran_without_nodes_counts_when_it_is_placed(host: Host) -> None:
    pod = host.run("a")
    made = events.Container("id", pod.sandbox_id, "main", 200 * MI, cpu_shares=1024)
    host.containers["id"] = made
    host.synchronize()
    assert requests(host) == [1000, 0, 0, 0]


def test_a_preset_container_counts(host: Host) -> None:
    host.create(host.run("a"), mems="3", cpu_shares=1024)
    assert requests(host) == [0, 0, 0, 1000]


def test_a_restart_of_the_container_keeps_one_request(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, cpu_shares=1024)
    host.stop(host.newest())
    host.create(pod, cpu_shares=1024)
    assert requests(host) == [1000, 0, 0, 0]


def test_the_pool_of_a_pod_has_no_request(new_host: NewHost) -> None:
    host = new_host(replace(SETTINGS, topology_manager_scope="pod"))
    pod = host.run("a", memory=500 * MI)
    host.create(pod, memory=200 * MI, cpu_shares=1024)
    assert requests(host) == [1000, 0, 0, 0]


def test_a_snapshot_has_the_request(host: Host) -> None:
    host.create(host.run("a"), cpu_shares=1024)
    host.create(host.run("b"))
    restored = restore(snapshot(host.engine.state))
    assert restored.holders["a", "main"].cpu_millicores == 1000
    assert restored.holders["b", "main"].cpu_millicores == 0


def test_a_holder_without_an_assignment_does_not_count(host: Host) -> None:
    host.create(host.run("a"), cpu_shares=1024)
    state = host.engine.state.with_accounting(host.engine.context.empty_accounting())
    assert set(cpu_requests(state, host.engine.context.machine).values()) == {0}


def test_running_sums_follow_the_views_of_pods(host: Host) -> None:
    machine = host.engine.context.machine
    host.create(host.run("a"), cpu_shares=1024)
    sums = RunningSums(host.engine.state, machine)
    assert sums.sums == {0: 1000, 1: 0, 2: 0, 3: 0}
    pod, bulk = host.run("b"), BulkUpdate(host.engine.state)
    before = bulk.pod_view(pod.uid)
    host.create(pod, cpu_shares=512, cpus="8")
    after = BulkUpdate(host.engine.state).pod_view(pod.uid)
    sums.replace(before, after)
    assert sums.sums == cpu_requests(host.engine.state, machine) == {0: 1000, 1: 0, 2: 500, 3: 0}
    sums.replace(after, before)
    assert sums.sums == {0: 1000, 1: 0, 2: 0, 3: 0}
