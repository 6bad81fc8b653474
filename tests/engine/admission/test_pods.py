"""The end of sandboxes, also of two under one uid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_numamem.engine.core.events import PodCgroupGone
from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.core.state import PREVIOUS_NAMES_LIMIT
from nri_numamem.engine.records.plain import fields_of
from tests.engine.conftest import Answer
from tests.engine.operations import count_operations

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
FREE = 1024 * MI - 64 * MI - 32 * MI


def test_stop_releases_and_remove_changes_nothing(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    (record,) = host.stop_pod(pod).records
    assert record.event == "pod_released"
    assert fields_of(record)["containers"] == ["main"]
    assert host.free() == [FREE] * 4
    assert host.remove_pod(pod) == Answer()
    assert host.engine.state.pods == {}


def test_remove_alone_releases_too(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    assert [record.event for record in host.remove_pod(pod).records] == ["pod_released"]
    assert host.placed() == {}


def test_a_container_may_stop_after_its_pod(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    container = host.newest()
    host.stop_pod(pod)
    assert host.stop(container) == Answer()
    assert host.remove(container) == Answer()


def test_a_recreated_sandbox_keeps_its_containers_assignments(host: Host) -> None:
    """The old sandbox of the same pod is removed late, after the new one's containers."""
    old = host.run("a", sandbox="old")
    host.create(old, container_id="old-main")
    host.stop_pod(old)
    new = host.run("a", sandbox="new")
    assert host.create(new, container_id="new-main").adjustment == Adjustment("0")
    assert host.remove_pod(old) == Answer()
    assert host.free()[0] == FREE - 200 * MI
    host.stop_pod(new)
    assert host.free() == [FREE] * 4


def test_the_end_of_an_unknown_pod_changes_nothing(host: Host) -> None:
    pod = host.run("a")
    host.stop_pod(pod)
    assert host.stop_pod(pod) == Answer()
    assert host.remove_pod(pod) == Answer()


def test_a_missing_cgroup_ends_a_pod(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    (record,) = host.handle(PodCgroupGone(pod)).records
    assert record.event == "pod_released"
    assert host.free() == [FREE] * 4
    assert host.remove_pod(pod) == Answer()


def test_a_container_of_an_unknown_pod_adds_the_pod(host: Host) -> None:
    """Launched plugins of NRI <= 0.6.1 are never synchronized."""
    pod = host.run("a")
    host.remove_pod(pod)
    host.create(pod)
    assert pod.sandbox_id in host.engine.state.pods
    assert [record.event for record in host.remove_pod(pod).records] == ["pod_released"]


def test_the_end_of_a_pod_takes_one_pass_over_its_containers(new_host: NewHost) -> None:
    def operations(containers: int) -> int:
        host = new_host()
        pod = host.run("a")
        for number in range(containers):
            host.create(pod, f"c{number}", MI)
        count = count_operations(lambda: host.stop_pod(pod))
        assert host.free() == [FREE] * 4
        return count

    few, many = operations(50), operations(200)
    assert many < 4.2 * few


def test_the_previous_nodes_of_a_pod_are_limited(host: Host) -> None:
    pod = host.run("a")
    for number in range(PREVIOUS_NAMES_LIMIT + 2):
        host.create(pod, f"c{number}", MI)
    host.stop_pod(pod)
    names = list(host.engine.state.previous_nodes["a"])
    assert names == [f"c{number}" for number in range(PREVIOUS_NAMES_LIMIT)]
