"""Looks at cgroups after a Synchronize: repairs, conflicts, and containers that stay unpinned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.events import CgroupUse, CpusetRead, CpusetsRead
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import Cpusets
from nri_numamem.engine.cpusets.check import unpinned_containers
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import NodeSet
from tests.engine.conftest import Answer

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 32 * MI
USE = CgroupUse(effective_mems=NodeSet(range(4)), memory_bytes={0: 100 * MI})
MUCH = replace(USE, memory_bytes={3: 300 * MI})
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
POD_SCOPE = Policy(reserved_memory=RESERVED, topology_manager_scope="pod")


def look(host: Host, mems: str, use: CgroupUse | None = USE, container_id: str = "c") -> list[str]:
    """Let the cgroup of a container have `mems`; return the events and outcomes of the records."""
    answer = host.handle(CpusetsRead((CpusetRead(container_id, NodeSet.parse(mems), use),)))
    assert answer == Answer(records=answer.records)
    return [f"{one.event} {fields_of(one).get('outcome', '')}".strip() for one in answer.records]


def cpusets(host: Host) -> Cpusets:
    return host.engine.state.cpusets


@pytest.fixture
def running(host: Host) -> Host:
    """Return a host with the container "c" on node 0."""
    host.create(host.run("a"), container_id="c")
    return host


def test_a_cgroup_with_the_nodes_of_the_accounting_changes_nothing(running: Host) -> None:
    before = running.engine.state
    assert look(running, "0", None) == []
    assert look(running, "", replace(USE, effective_mems=NodeSet([0]))) == []
    assert running.engine.state == before


def test_a_cgroup_without_nodes_is_repaired_with_the_next_reply(running: Host) -> None:
    assert look(running, "") == ["cpuset_mems_missing repair_deferred"]
    assert look(running, "") == []
    other = running.run("b")
    plan = running.create(other)
    assert plan.updates == (Update("c", "0"),)
    record = plan.records[-1]
    assert record.event == "cpuset_mems_reapplied"
    assert fields_of(record)["cause"] == "the cgroup has none"
    assert (fields_of(record)["pod"], fields_of(record)["container"]) == ("pod-a", "main")
    assert running.create(other, "second").updates == ()
    # It is repaired as often as it is unset.
    assert look(running, "") == ["cpuset_mems_missing repair_deferred"]
    assert running.create(other, "third").updates == (Update("c", "0"),)


def test_a_repair_that_is_not_needed_any_more_is_not_sent(running: Host) -> None:
    look(running, "")
    assert look(running, "0") == []
    assert running.create(running.run("b")).updates == ()


def test_a_container_that_grew_is_not_repaired_any_more(running: Host) -> None:
    look(running, "")
    assert look(running, "", MUCH) == ["cpuset_mems_missing unpinned"]
    assert cpusets(running).unpinned == {"c"}
    assert running.create(running.run("b")).updates == ()
    assert look(running, "", MUCH) == []  # it is recorded once
    assert look(running, "") == ["cpuset_mems_missing repair_deferred"]
    assert cpusets(running).unpinned == frozenset()


def test_devices_are_known_from_the_creation(host: Host) -> None:
    pod = host.run("a")
    for number, mems in enumerate(("", "0")):
        container_id = f"c{number}"
        container = events.Container(
            container_id,
            pod.sandbox_id,
            container_id,
            200 * MI,
            cpuset_mems=mems,
            has_devices=True,
        )
        host.handle(events.CreateContainer(pod, container))
        shown = replace(container, cpuset_mems="0")
        host.containers[container_id] = shown
        assert look(host, "", container_id=container_id) == ["cpuset_mems_missing unpinned"]
    host.synchronize()
    assert look(host, "", container_id="c1") == ["cpuset_mems_missing unpinned"]


def test_assigned_hugepages_forbid_a_repair(host: Host) -> None:
    host.create(host.run("a"), container_id="c", hugepages={PAGE: PAGE})
    assert look(host, "") == ["cpuset_mems_missing unpinned"]


def test_nodes_that_something_else_set_are_adopted(running: Host) -> None:
    running.create(running.run("b"), mems="3", memory=FREE - 100 * MI)
    assert look(running, "3", MUCH) == ["cpuset_mems_conflict"]
    assert running.placed()["a"] == {"main": "3"}
    assert running.free()[0] == FREE
    record = running.answers[-1].records[0]
    assert fields_of(record)["previous_nodes"] == "0"
    assert fields_of(record)["nodes"] == "3"
    assert fields_of(record)["shortfall_bytes"] == {"memory": 100 * MI}
    assert look(running, "3", None) == []
    assert running.create(running.run("c")).updates == ()


def test_a_pods_pool_follows_its_containers(new_host: NewHost) -> None:
    host = new_host(POD_SCOPE)
    new_host.groups_may_mix = True
    host.create(host.run("a", memory=500 * MI), container_id="c", memory=300 * MI)
    assert look(host, "1") == ["cpuset_mems_conflict"]
    assert host.placed() == {"a": {"": "0", "main": "1"}}
    assert host.free()[:2] == [FREE - 200 * MI, FREE - 300 * MI]


def test_a_container_of_an_unknown_sandbox_is_adopted_too(running: Host) -> None:
    state = running.engine.state
    running.engine = running.engine.with_state(running.engine.context, replace(state, pods={}))
    assert look(running, "2") == ["cpuset_mems_conflict"]
    assert "pod" not in fields_of(running.answers[-1].records[0])


def test_an_update_that_the_cgroup_does_not_show_is_repeated_once(running: Host) -> None:
    pod = running.pods["sandbox-a"]
    wider = events.UpdateContainer(pod, running.newest(), FREE + MI)
    assert running.handle(wider).updates == (Update("c", "0-1"),)
    assert cpusets(running).unconfirmed == {"c"}
    assert look(running, "0") == []
    assert look(running, "0") == []  # it waits for a reply
    plan = running.create(running.run("b"))
    assert plan.updates == (Update("c", "0-1"),)
    assert fields_of(plan.records[-1])["cause"] == "the update did not reach the cgroup"
    assert look(running, "0") == ["cpuset_mems_conflict"]
    assert running.placed()["a"] == {"main": "0"}


def test_an_unconfirmed_update_is_not_repeated_where_it_would_move_too_much(running: Host) -> None:
    pod = running.pods["sandbox-a"]
    running.handle(events.UpdateContainer(pod, running.newest(), FREE + MI))
    assert look(running, "0", MUCH) == ["cpuset_mems_conflict"]


def test_a_confirmed_update_is_not_repeated(running: Host) -> None:
    pod = running.pods["sandbox-a"]
    running.handle(events.UpdateContainer(pod, running.newest(), FREE + MI))
    look(running, "0-1")
    assert cpusets(running).unconfirmed == frozenset()
    assert look(running, "0") == ["cpuset_mems_conflict"]


def test_a_repair_does_not_overwrite_what_something_else_set_meanwhile(running: Host) -> None:
    look(running, "")
    assert look(running, "2") == ["cpuset_mems_conflict"]
    assert running.create(running.run("b")).updates == ()


def test_containers_that_are_unknown_ended_or_pending_are_ignored(host: Host) -> None:
    pod = host.run("a")
    assert look(host, "", container_id="unknown") == []
    host.create(pod, container_id="c")
    host.stop(host.newest())
    assert look(host, "") == []
    found = events.Container("x", pod.sandbox_id, "x", 200 * MI)
    host.handle(events.ContainersFound(((pod, found),)))
    assert look(host, "", container_id="x") == []
    host.create(host.run("b"), container_id="own")
    assert cpusets(host).unconfirmed == {"x"}


def test_an_ended_container_gets_no_repair(running: Host) -> None:
    look(running, "")
    assert running.stop(running.newest()).updates == ()
    assert cpusets(running).repairs == {}


def test_live_containers_whose_cgroup_has_no_nodes(host: Host) -> None:
    for number in range(4):
        host.create(host.run(f"{number}"), container_id=f"c{number}")
    for number, use in enumerate((USE, MUCH, MUCH)):
        look(host, "", use, container_id=f"c{number}")
    host.handle(events.UpdateContainer(host.pods["sandbox-3"], host.newest(), FREE + MI))
    look(host, "0", USE, container_id="c3")  # set, but not confirmed
    assert unpinned_containers(host.engine.state) == {"c0", "c1", "c2"}
    host.engine.apply(
        events.StopContainer(host.pods["sandbox-2"], host.containers["c2"])
    )  # its reply repairs the first one
    assert unpinned_containers(host.engine.state) == {"c1"}
