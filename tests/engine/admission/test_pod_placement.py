"""Placement in pod scope: by the hints of the pod's first container, and beside its pod."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.core.policy import Policy
from nri_numamem.memorymanager import Reservation

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
FREE = 1024 * MI - 64 * MI - 16 * 2 * MI  # of an empty node
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
SETTINGS = Policy(reserved_memory=RESERVED, topology_manager_scope="pod")
RESTRICTED = replace(SETTINGS, topology_manager_policy="restricted")
SINGLE = replace(SETTINGS, topology_manager_policy="single-numa-node")


@pytest.fixture
def pods(new_host: NewHost) -> Host:
    return new_host(SETTINGS)


def used(host: Host) -> list[int]:
    return [FREE - free for free in host.free()]


def test_the_first_containers_hints_move_the_pod(pods: Host) -> None:
    pod = pods.run("a", memory=500 * MI)
    assert pods.create(pod, "one", 100 * MI, cpus="8").adjustment == Adjustment("2")
    assert used(pods) == [0, 0, 500 * MI, 0]
    assert pods.create(pod, "two", 100 * MI, cpus="0").adjustment == Adjustment("2")


def test_hints_on_a_part_of_the_pods_nodes_leave_it_there(new_host: NewHost) -> None:
    host = new_host(RESTRICTED)
    pod = host.run("a", memory=1200 * MI)
    assert host.create(pod, "one", 100 * MI, cpus="4").adjustment == Adjustment("0-1")


def test_a_pod_that_fits_later_is_placed_by_its_hints(new_host: NewHost) -> None:
    host = new_host(RESTRICTED)
    other = host.run("other", memory=3500 * MI)
    pod = host.run("a", memory=1200 * MI)
    host.stop_pod(other)
    # The whole pod needs two nodes, so no hint is preferred together with one CPU's.
    assert host.create(pod, "one", 100 * MI, cpus="4").adjustment == Adjustment("0-1")


@pytest.mark.parametrize("settings", [RESTRICTED, SINGLE], ids=["restricted", "single"])
def test_strict_policies_refuse_memory_that_cannot_be_near_the_cpus(
    new_host: NewHost, settings: Policy
) -> None:
    host = new_host(settings)
    full = host.run("full", memory=900 * MI)
    assert host.create(full, cpus="8").adjustment == Adjustment("2")
    first = host.run("a", memory=500 * MI)
    refusal = host.create(first, "one", 100 * MI, cpus="8").refusal or ""
    assert "TopologyAffinityError (topologyManagerPolicy " in refusal
    assert ") with cpu on node 2: requested " in refusal
    assert host.create(first, "one", 100 * MI, cpus="0").adjustment == Adjustment("0")
    refusal = host.create(first, "two", 100 * MI, cpus="4").refusal or ""
    assert "the pod's memory is on node 0; remedy: " in refusal
    assert refusal.endswith("with Topology locality")
