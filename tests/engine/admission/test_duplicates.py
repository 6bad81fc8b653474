"""Two running containers of one name, in two sandboxes of one pod."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from tests.engine.conftest import GI, MI, PAGE, SETTINGS, Answer, Host

if TYPE_CHECKING:
    from tests.engine.conftest import NewHost

FREE = GI - 64 * MI - 16 * PAGE  # of an empty node


def warnings(answer: Answer) -> list[Record]:
    return [record for record in answer.records if record.event == "duplicate_container"]


@pytest.fixture
def limited(host: Host) -> Host:
    """Return a host with both containers, each as large as the limit of its sandbox."""
    twins(host, limit=300 * MI)
    return host


def twins(host: Host, memory: int = 300 * MI, limit: int | None = None) -> Answer:
    """Create both containers; return the answer to the second creation."""
    for sandbox in ("old", "new"):
        pod = host.run("a", sandbox=sandbox, memory=limit)
        answer = host.create(pod, memory=memory, container_id=f"{sandbox}-main")
    return answer


def used(host: Host) -> int:
    return 4 * FREE - sum(host.free())


def test_both_are_recorded_and_a_warning_names_them(host: Host) -> None:
    answer = twins(host)
    assert answer.adjustment == Adjustment("0")
    (record,) = warnings(answer)
    assert record.level == "warning"
    assert fields_of(record)["container_id"] == "new-main"
    assert fields_of(record)["sandbox_id"] == "new"
    assert fields_of(record)["other_container_id"] == "old-main"
    assert fields_of(record)["other_sandbox_id"] == "old"
    assert used(host) == 600 * MI
    assert host.placed() == {"a": {"old-main": "0", "main": "0"}}


def test_the_limit_of_a_pod_is_that_of_each_sandbox(limited: Host) -> None:
    assert used(limited) == 600 * MI
    limited.synchronize()
    assert used(limited) == 600 * MI


def test_two_that_do_not_fit_on_one_node(host: Host) -> None:
    assert twins(host, 900 * MI).adjustment == Adjustment("1")
    assert used(host) == 1800 * MI


@pytest.mark.parametrize("first", ["old", "new"])
def test_each_ends_by_itself(host: Host, first: str) -> None:
    twins(host)
    host.stop(host.containers[f"{first}-main"])
    host.stop_pod(host.pods[first])
    assert used(host) == 300 * MI
    (left,) = host.engine.state.holders.values()
    assert not left.ended
    assert left.container_id != f"{first}-main"
    host.stop_pod(host.pods[left.sandbox_id])
    assert used(host) == 0


def test_each_is_resized_by_itself(host: Host) -> None:
    twins(host)
    for sandbox, memory in (("old", 100), ("new", 200)):
        container = host.containers[f"{sandbox}-main"]
        host.handle(events.UpdateContainer(host.pods[sandbox], container, memory * MI))
    assert used(host) == 300 * MI


def test_a_container_that_ended_is_no_duplicate(host: Host) -> None:
    old = host.run("a", sandbox="old")
    host.create(old)
    host.stop(host.newest())
    answer = host.create(host.run("a", sandbox="new"))
    assert warnings(answer) == []
    assert used(host) == 200 * MI


def test_a_container_that_is_created_again_in_its_sandbox_is_no_duplicate(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, container_id="first")
    assert warnings(host.create(pod, container_id="second")) == []
    assert used(host) == 200 * MI


@pytest.mark.parametrize("pinned", [True, False])
def test_a_synchronize_records_both(host: Host, new_host: NewHost, pinned: bool) -> None:
    twins(host)
    if not pinned:
        for container_id, container in host.containers.items():
            host.containers[container_id] = replace(container, cpuset_mems="")
    for again in (host, new_host()):
        again.pods, again.containers = host.pods, host.containers
        answer = again.synchronize()
        assert len(warnings(answer)) == 1
        assert used(again) == 600 * MI
        assert len(again.engine.state.holders) == 2
    # The next list has one of the two only.
    del host.pods["old"], host.containers["old-main"]
    assert warnings(host.synchronize()) == []
    assert host.placed() == {"a": {"main": "0"}}


def test_a_refused_container_leaves_the_other_as_it_is(host: Host) -> None:
    twins(host, 900 * MI)
    pod = host.run("a", sandbox="third")
    answer = host.create(pod, memory=9000 * MI)
    assert answer.refusal is not None
    assert used(host) == 1800 * MI


def test_each_sandbox_has_the_hugepages_of_the_pod(host: Host) -> None:
    for sandbox in ("old", "new"):
        pod = host.run("a", sandbox=sandbox, hugepages={PAGE: 4 * PAGE})
        host.create(pod, container_id=f"{sandbox}-main")
    assert 4 * 16 * PAGE - sum(host.free("hugepages-2Mi")) == 8 * PAGE
    host.synchronize()
    assert 4 * 16 * PAGE - sum(host.free("hugepages-2Mi")) == 8 * PAGE


def test_a_preset_container_beside_another(host: Host) -> None:
    host.create(host.run("a", sandbox="old"))
    answer = host.create(host.run("a", sandbox="new"), mems="2")
    assert len(warnings(answer)) == 1
    assert used(host) == 400 * MI


def test_in_pod_scope_the_pod_is_reserved_beside_the_earlier_container(new_host: NewHost) -> None:
    host = new_host(replace(SETTINGS, topology_manager_scope="pod"))
    answer = twins(host, memory=300 * MI, limit=500 * MI)
    assert len(warnings(answer)) == 1
    assert used(host) == 800 * MI
    host.synchronize()
    assert used(host) == 800 * MI


@pytest.mark.parametrize("name", ["old-id", "other"])
def test_a_name_that_is_the_id_of_another_container(host: Host, name: str) -> None:
    old = host.run("a", sandbox="old")
    host.create(old, name, memory=300 * MI, container_id="old-id")
    if name != "old-id":
        host.create(old, "old-id", memory=300 * MI, container_id="third")
    new = host.run("a", sandbox="new")
    answer = host.create(new, name, memory=300 * MI, container_id="new-id")
    assert answer.adjustment is not None
    assert warnings(answer) == []
    assert host.placed()["a"].keys() == {name, "old-id"}
