"""Containers that run without nodes at a Synchronize: created while the plugin was away."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.events import CgroupUse, CpusetRead, CpusetsRead
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.numa import NodeSet

if TYPE_CHECKING:
    from tests.engine.conftest import Answer, Host

MI = 1 << 20
ON_NODE_0 = "0-3"
MUCH = CgroupUse(memory_bytes={0: 300 * MI, 1: 300 * MI})


def events_of(plan: Answer) -> list[str]:
    return [record.event for record in plan.records]


def start_unpinned(
    host: Host, use: CgroupUse | None, uid: str = "a", *, has_devices: bool = False
) -> str:
    """Run a container of its own pod that no plugin has seen; return its id."""
    pod = host.run(uid)
    host.create(pod, uid)
    container = replace(
        host.newest(uid),
        cpuset_mems="",
        cgroup_mems=NodeSet(),
        cgroup_use=use,
        has_devices=has_devices,
    )
    host.containers[container.container_id] = container
    host.engine = Engine(host.engine.context)
    return container.container_id


def test_a_container_is_pinned_where_most_of_its_memory_is(host: Host) -> None:
    container_id = start_unpinned(host, CgroupUse(memory_bytes={0: 200 * MI, 2: 500 * MI}))
    previous = host.engine.state.previous_nodes
    plan = host.synchronize()
    assert plan.updates == (Update(container_id, "2"),)
    assert events_of(plan) == ["pinned_while_running", "synchronized"]
    assert host.placed() == {"a": {"a": "2"}}
    assert host.engine.state.previous_nodes == previous
    assert host.engine.state.cpusets.unconfirmed == {container_id}


def test_of_equal_amounts_the_lowest_node_counts(host: Host) -> None:
    container_id = start_unpinned(host, CgroupUse(memory_bytes={3: 200 * MI, 1: 200 * MI}))
    assert host.synchronize().updates == (Update(container_id, "1"),)


def test_small_containers_are_placed_like_new_ones(host: Host) -> None:
    ids = [start_unpinned(host, CgroupUse(memory_bytes={2: 256 * MI}), uid) for uid in "ab"]
    assert host.synchronize().updates == tuple(Update(one, "0") for one in ids)


def test_previous_nodes_win_over_those_of_the_memory(host: Host) -> None:
    container_id = start_unpinned(host, CgroupUse(memory_bytes={2: 200 * MI, 3: 180 * MI}))
    before = replace(host.engine.state, previous_nodes={"a": {"a": NodeSet([3])}})
    host.engine = Engine(host.engine.context, restore(snapshot(before)))
    assert host.synchronize().updates == (Update(container_id, "3"),)


@pytest.mark.parametrize(
    ("use", "has_devices", "cause"),
    [
        (MUCH, False, f"{300 * MI} bytes of memory would move"),
        (replace(MUCH, has_hugepages=True), False, "the container uses hugepages"),
        (CgroupUse(memory_bytes={}), True, "the container has devices"),
        (CgroupUse(), False, "its use of memory is unknown"),
        (None, False, "its use of memory is unknown"),
    ],
)
def test_a_container_whose_memory_must_not_move_stays_unpinned(
    host: Host, use: CgroupUse | None, cause: str, *, has_devices: bool
) -> None:
    container_id = start_unpinned(host, use, has_devices=has_devices)
    plan = host.synchronize()
    assert plan.updates == ()
    assert events_of(plan) == ["cpuset_mems_missing", "synchronized"]
    record = plan.records[0]
    assert record.level == "warning"
    assert fields_of(record)["outcome"] == "unpinned"
    assert fields_of(record)["cause"] == cause
    assert "restart the container" in str(fields_of(record)["remedy"])
    # Its nodes are reserved, and the next Synchronize finds the same.
    assert host.placed() == {"a": {"a": "0"}}
    assert host.engine.state.cpusets.unpinned == {container_id}
    assert host.engine.state.cpusets.unconfirmed == frozenset()
    assert host.synchronize().updates == ()
    assert host.placed() == {"a": {"a": "0"}}


def test_it_is_pinned_later_when_less_would_move(host: Host) -> None:
    container_id = start_unpinned(host, MUCH)
    host.synchronize()
    little = CgroupUse(memory_bytes={0: 300 * MI, 1: 200 * MI})
    host.handle(CpusetsRead((CpusetRead(container_id, NodeSet(), little),)))
    assert host.create(host.run("b")).updates == (Update(container_id, "0"),)
    assert host.engine.state.cpusets.unpinned == frozenset()
    assert container_id in host.engine.state.reasons.pinned
    assert container_id not in host.engine.state.reasons.unpinned


def test_a_container_without_a_cgroup_is_pinned(host: Host) -> None:
    container_id = start_unpinned(host, None)
    host.containers[container_id] = replace(host.containers[container_id], cgroup_mems=None)
    assert host.synchronize().updates == (Update(container_id, "0"),)


def test_where_only_these_nodes_exist_nothing_would_move(host: Host) -> None:
    use = CgroupUse(effective_mems=NodeSet([0]), memory_bytes=None)
    container_id = start_unpinned(host, use)
    assert host.synchronize().updates == (Update(container_id, "0"),)


def test_a_misaligned_container_that_stays_unpinned_is_reported(host: Host) -> None:
    host.create(host.run("full"), memory=900 * MI, cpus=ON_NODE_0)
    container_id = start_unpinned(host, MUCH)
    host.containers[container_id] = replace(host.containers[container_id], cpuset_cpus=ON_NODE_0)
    plan = host.synchronize()
    assert events_of(plan) == ["adopted", "misaligned", "cpuset_mems_missing", "synchronized"]
    assert host.placed()["a"] == {"a": "1"}
