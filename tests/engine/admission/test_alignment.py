"""Containers whose memory is on no node of their CPUs or of a device: record, state, dump."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.admission.alignment import (
    found_misaligned,
    misaligned_containers,
    misaligned_record,
)
from nri_numamem.engine.core import events
from nri_numamem.engine.core.candidates import Choice
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.facts import NetworkInterface, NetworkRequest
from nri_numamem.engine.core.providers import OtherProviders
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.dump import state_record
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import default_state
from nri_numamem.numa import Machine, NodeSet, NumaNode
from tests.engine.conftest import GI, MI, SETTINGS, Answer, Host

if TYPE_CHECKING:
    from tests.engine.conftest import NewHost

ON_NODE_0, ON_NODE_1 = "0-3", "4-7"


def warnings(answer: Answer) -> list[Record]:
    return [record for record in answer.records if record.event == "misaligned"]


def fill(host: Host, cpus: str = ON_NODE_0, memory: int = 900 * MI) -> None:
    """Leave little memory on a node."""
    assert host.create(host.run(f"full{cpus}"), memory=memory, cpus=cpus).adjustment is not None


def misaligned(host: Host) -> dict[str, OtherProviders]:
    found = misaligned_containers(host.engine.state)
    return {holder.key[0]: remote for holder, remote in found}


def test_a_container_on_another_node_than_its_cpus_is_reported(host: Host) -> None:
    fill(host)
    answer = host.create(host.run("a"), cpus=ON_NODE_0)
    (record,) = warnings(answer)
    assert record.level == "warning"
    assert fields_of(record)["container"] == "main"
    assert fields_of(record)["nodes"] == "1"
    assert fields_of(record)["misaligned"] == {"cpu": "0"}
    assert fields_of(record)["causes"] == {"cpu": "not_enough_free"}
    assert misaligned(host) == {"a": OtherProviders(cpu=NodeSet([0]))}
    dump = state_record(host.engine.state)
    assert fields_of(dump)["misaligned"] == {"a": {"main": {"cpu": "0"}}}


def test_an_aligned_container_is_not_reported(host: Host) -> None:
    answer = host.create(host.run("a"), cpus=ON_NODE_1, devices=["1"])
    assert warnings(answer) == []
    assert misaligned(host) == {}
    assert fields_of(state_record(host.engine.state))["misaligned"] == {}


def test_devices_and_cpus_without_a_common_node(host: Host) -> None:
    answer = host.create(host.run("a"), cpus=ON_NODE_1, devices=["1", "3"])
    (record,) = warnings(answer)
    assert fields_of(record)["misaligned"] == {"devices": ["3"]}
    assert fields_of(record)["causes"] == {"devices": "not_aligned"}


def test_without_a_policy_nothing_has_to_be_aligned(new_host: NewHost) -> None:
    host = new_host(replace(SETTINGS, topology_manager_policy="none"))
    assert warnings(host.create(host.run("a"), cpus=ON_NODE_1)) == []
    assert misaligned(host) == {}


def test_nodes_that_another_plugin_set(host: Host) -> None:
    (record,) = warnings(host.create(host.run("a"), mems="2", cpus=ON_NODE_1, devices=["3"]))
    assert fields_of(record)["misaligned"] == {"cpu": "1", "devices": ["3"]}
    assert fields_of(record)["causes"] == {"cpu": "adopted", "devices": "adopted"}
    assert warnings(host.create(host.run("b"), mems="1", cpus=ON_NODE_1)) == []


def test_a_resize_to_the_nodes_of_the_cpus_aligns(host: Host) -> None:
    fill(host)
    pod = host.run("a")
    host.create(pod, cpus=ON_NODE_0)
    assert list(misaligned(host)) == ["a"]
    host.stop_pod(host.pods["sandbox-full0-3"])
    container = host.newest()
    answer = host.handle(events.UpdateContainer(pod, container, 300 * MI))
    assert list(misaligned(host)) == ["a"]  # on the same node
    answer = host.handle(events.UpdateContainer(pod, container, 2 * GI - 300 * MI))
    assert [update.cpuset_mems for update in answer.updates] == ["0-1"]
    assert misaligned(host) == {}


def test_a_container_that_ended_is_not_listed(host: Host) -> None:
    fill(host)
    host.create(host.run("a"), cpus=ON_NODE_0)
    host.stop(host.newest())
    assert misaligned(host) == {}


def test_a_synchronize_reports_only_what_is_new(host: Host, new_host: NewHost) -> None:
    fill(host)
    host.create(host.run("a"), cpus=ON_NODE_0, devices=["3"])
    before = misaligned(host)
    assert before == {"a": OtherProviders((NodeSet([3]),), NodeSet([0]))}
    # The runtime does not show devices again.
    for container_id, container in host.containers.items():
        host.containers[container_id] = replace(container, device_nodes=())
    assert warnings(host.synchronize()) == []
    assert misaligned(host) == before
    # A new process reports what it sees, and takes the devices from the state file.
    for restored in (None, restore(snapshot(host.engine.state))):
        again = new_host()
        again.engine = Engine(again.engine.context, restored)
        again.pods, again.containers = host.pods, host.containers
        found = warnings(again.synchronize())
        if restored is None:
            assert [fields_of(record)["causes"] for record in found] == [{"cpu": "adopted"}]
            assert misaligned(again) == {"a": OtherProviders(cpu=NodeSet([0]))}
        else:
            assert found == []
            assert misaligned(again) == before


def test_interfaces_stay_known_after_a_synchronize_and_a_restart(new_host: NewHost) -> None:
    host = new_host(replace(SETTINGS, network_hints=True))
    eth1 = NetworkInterface("eth1", NodeSet([3]))
    pod = host.run("a")
    container = events.Container("c", pod.sandbox_id, "main", 200 * MI, cpuset_mems="0")
    host.containers["c"] = container
    network = NetworkRequest((eth1,))
    host.handle(events.CreateContainer(pod, container, network=network))
    expected = {"a": OtherProviders(interfaces=(eth1,))}
    assert misaligned(host) == expected
    assert str(expected["a"]) == "network interface eth1 on node 3"
    assert warnings(host.synchronize()) == []
    assert misaligned(host) == expected
    again = new_host()
    again.engine = Engine(again.engine.context, restore(snapshot(host.engine.state)))
    again.pods, again.containers = host.pods, host.containers
    assert warnings(again.synchronize()) == []
    assert misaligned(again) == expected


def test_a_container_that_runs_unpinned_is_placed_and_reported_once(host: Host) -> None:
    fill(host)
    pod = host.run("a")
    host.containers["c"] = events.Container(
        "c", pod.sandbox_id, "main", 200 * MI, cpuset_cpus=ON_NODE_0
    )
    answer = host.synchronize()
    assert [update.cpuset_mems for update in answer.updates] == ["1"]
    names = [record.event for record in answer.records]
    assert names.count("pinned_while_running") == 1
    (record,) = warnings(answer)
    assert fields_of(record)["causes"] == {"cpu": "not_enough_free"}


@pytest.mark.parametrize(
    ("policy", "static", "warns"),
    [
        ("restricted", True, True),
        ("single-numa-node", True, True),
        ("best-effort", True, False),
        ("none", True, False),
        ("restricted", False, False),
    ],
)
def test_a_strict_policy_beside_static_cpus_is_a_warning(
    new_host: NewHost, policy: str, static: bool, warns: bool
) -> None:
    chosen = replace(SETTINGS, topology_manager_policy=policy, has_static_cpus=static)
    first, *more = new_host(chosen).engine.context.start_records("1")
    assert first.event == "machine"
    assert [record.event for record in more] == (
        ["strict_policy_with_static_cpus"] if warns else []
    )
    for record in more:
        assert record.level == "warning"
        assert fields_of(record)["topologyManagerPolicy"] == policy
        assert "of 100 pods" in str(fields_of(record)["cost"])


def test_a_manager_that_is_off_does_not_warn(new_host: NewHost) -> None:
    off = replace(
        SETTINGS,
        memory_manager_policy="None",
        topology_manager_policy="restricted",
        has_static_cpus=True,
    )
    assert len(new_host(off).engine.context.start_records("1")) == 1


POD = PodSandbox("s", "u", "ns", "pod", "/kubepods/podu")
CONTAINER = Container("id", "s", "main", 1)
ACCOUNTING = default_state(Machine((NumaNode(0, 2), NumaNode(1, 9))), {0: {}, 1: {}})


def test_each_provider_has_a_cause() -> None:
    remote = OtherProviders((NodeSet([0]),), NodeSet([0]))
    choice = Choice(ACCOUNTING, "u", {"memory": 5}, NodeSet([1]), remote)
    record = misaligned_record(choice, POD, CONTAINER, remote)
    assert record.event == "misaligned"
    assert fields_of(record)["nodes"] == "1"
    assert fields_of(record)["misaligned"] == {"cpu": "0", "devices": ["0"]}
    assert fields_of(record)["causes"] == {"cpu": "too_small", "devices": "too_small"}


def test_only_the_providers_that_are_away() -> None:
    remote = OtherProviders(cpu=NodeSet([0]))
    choice = Choice(ACCOUNTING, "u", {"memory": 1}, NodeSet([1]), remote)
    assert fields_of(misaligned_record(choice, POD, CONTAINER, remote))["causes"] == {
        "cpu": "ranks_lower"
    }
    devices = OtherProviders((NodeSet([0]), NodeSet([0, 1])))
    choice = Choice(ACCOUNTING, "u", {"memory": 5}, NodeSet([1]), devices)
    record = misaligned_record(choice, POD, CONTAINER, devices.misaligned_with(NodeSet([1])))
    assert fields_of(record)["misaligned"] == {"devices": ["0"]}


def test_nodes_that_were_set_before() -> None:
    record = found_misaligned(POD, CONTAINER, NodeSet([1]), OtherProviders(cpu=NodeSet([0])))
    assert fields_of(record)["causes"] == {"cpu": "adopted"}
    assert fields_of(record)["container_id"] == "id"
