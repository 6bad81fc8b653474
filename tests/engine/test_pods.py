"""The end of sandboxes, also of two under one uid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_numamem.engine.events import PodCgroupGone
from nri_numamem.engine.plan import Adjustment, Plan

if TYPE_CHECKING:
    from tests.engine.conftest import Host

MI = 1 << 20
FREE = 1024 * MI - 64 * MI - 32 * MI


def test_stop_releases_and_remove_has_nothing_left_to_do(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    (record,) = host.stop_pod(pod).records
    assert record.event == "pod released"
    assert record.fields["containers"] == ["main"]
    assert host.free() == [FREE] * 4
    assert host.remove_pod(pod) == Plan()
    assert host.engine.state.pods == {}


def test_remove_alone_releases_too(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    assert [record.event for record in host.remove_pod(pod).records] == ["pod released"]
    assert host.placed() == {}


def test_a_container_may_stop_after_its_pod(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    container = host.newest()
    host.stop_pod(pod)
    assert host.stop(container) == Plan()
    assert host.remove(container) == Plan()


def test_a_sandbox_that_is_made_anew_keeps_what_its_containers_hold(host: Host) -> None:
    """The old sandbox of the same pod is removed late, after the new one's containers."""
    old = host.run("a", sandbox="old")
    host.create(old, container_id="old-main")
    host.stop_pod(old)
    new = host.run("a", sandbox="new")
    assert host.create(new, container_id="new-main").adjustment == Adjustment("0")
    assert host.remove_pod(old) == Plan()
    assert host.free()[0] == FREE - 200 * MI
    host.stop_pod(new)
    assert host.free() == [FREE] * 4


def test_a_pod_that_was_never_heard_of_can_end(host: Host) -> None:
    pod = host.run("a")
    host.stop_pod(pod)
    assert host.stop_pod(pod) == Plan()
    assert host.remove_pod(pod) == Plan()


def test_a_cgroup_that_is_gone_ends_a_pod(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    (record,) = host.engine.handle(PodCgroupGone(pod)).records
    assert record.event == "pod released"
    assert host.free() == [FREE] * 4
    assert host.remove_pod(pod) == Plan()


def test_a_container_of_an_unknown_pod_makes_the_pod_known(host: Host) -> None:
    """Launched plugins of NRI <= 0.6.1 are never synchronized."""
    pod = host.run("a")
    host.remove_pod(pod)
    host.create(pod)
    assert pod.sandbox_id in host.engine.state.pods
    assert [record.event for record in host.remove_pod(pod).records] == ["pod released"]
