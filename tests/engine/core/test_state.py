"""The state's indexes, also where a runtime gives out a container's id twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_numamem.engine.core.state import NO_CPUSETS

if TYPE_CHECKING:
    from tests.engine.conftest import Host


def test_a_container_id_used_twice_belongs_to_the_newest_holder(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, "x", container_id="c")
    host.create(pod, "y", container_id="c")
    host.create(pod, "x", container_id="d")
    assert dict(host.engine.state.keys) == {"c": ("a", "y"), "d": ("a", "x")}
    host.create(pod, "y", container_id="e")
    assert dict(host.engine.state.keys) == {"d": ("a", "x"), "e": ("a", "y")}
    host.stop_pod(pod)
    state = host.engine.state
    assert (dict(state.keys), dict(state.holders), host.placed()) == ({}, {}, {})


def test_the_older_holder_of_an_id_ends_without_the_newer_one(host: Host) -> None:
    first, second = host.run("a"), host.run("b")
    host.create(first, container_id="c")
    host.create(second, container_id="c")
    host.stop_pod(first)
    holder = host.engine.state.holder("c")
    assert holder is not None
    assert holder.key == ("b", "main")


def test_the_cpuset_of_a_container_without_a_holder_is_forgotten(host: Host) -> None:
    pod = host.run("a")
    known: list[frozenset[str]] = []
    for number in range(3):
        host.create(pod, container_id=f"c{number}", devices=["0"])
        known.append(host.engine.state.cpusets.with_devices)
    assert known == [{"c0"}, {"c1"}, {"c2"}]
    host.stop_pod(pod)
    assert host.engine.state.cpusets == NO_CPUSETS


def test_the_cpuset_of_an_id_that_a_newer_holder_has_is_kept(host: Host) -> None:
    first, second = host.run("a"), host.run("b")
    host.create(first, container_id="c", devices=["0"])
    host.create(second, container_id="c", devices=["0"])
    host.stop_pod(first)
    assert host.engine.state.cpusets.with_devices == {"c"}
