"""Containers of Burstable pods in a partition: pinned inside, confined, unpinned, found again."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.plan import Adjustment, Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.numa import Exclusive, MemoryPolicies, NodeSet, Partition, PolicyMode
from tests.engine.conftest import GI, MI, Host, NewHost, four_nodes
from tests.engine.features.burstable_pods.test_burstable import (
    charged,
    create,
    names,
    policy_of,
    run,
    update,
)

INSIDE = Partition("web", NodeSet([2, 3]), namespaces=("ns",), confine=True)
OUTSIDE = Partition("ml", NodeSet([3]), namespaces=("ml",), exclusive=Exclusive.ALL)


def policy(*partitions: Partition) -> Policy:
    return replace(policy_of(), partitions=partitions)


def restarted(host: Host, settings: Policy) -> Host:
    """Return the host with a plugin that knows nothing of what runs."""
    again = Host(Engine(new_context(four_nodes(), settings)))
    again.pods, again.containers = host.pods, host.containers
    again.synchronize()
    return again


def test_a_container_with_evidence_is_pinned_inside(new_host: NewHost) -> None:
    host = new_host(policy(INSIDE))
    pod = run(host, "a")
    assert create(host, pod).adjustment == Adjustment("2")
    answer = create(host, pod, "other", reserved=0)
    assert answer.adjustment == Adjustment("2-3")
    assert names(answer) == ["not_managed", "confined"]
    assert charged(host) == {"main": 200 * MI}


def test_one_that_fits_nowhere_is_confined(new_host: NewHost) -> None:
    host = new_host(policy(INSIDE))
    answer = create(host, run(host, "a"), memory=3 * GI)
    assert answer.adjustment == Adjustment("2-3")
    assert names(answer) == ["burstable_not_pinned", "confined"]
    assert charged(host) == {}


@pytest.mark.parametrize(
    ("partition", "nodes"),
    [(INSIDE, "2-3"), (OUTSIDE, "0-2"), (replace(INSIDE, confine=False), "0-3")],
)
def test_one_that_is_unpinned_gets_the_nodes_of_its_neighbours(
    new_host: NewHost, partition: Partition, nodes: str
) -> None:
    host = new_host(policy(partition))
    pod = run(host, "a")
    create(host, pod)
    container = host.newest()
    answer = update(host, container, 300 * MI, reserved=100 * MI)
    assert answer.updates == (Update(container.container_id, nodes),)
    # After a restart it is not charged either.
    assert charged(restarted(host, policy(partition))) == {}
    host.synchronize()
    assert charged(host) == {}


def test_a_resize_that_fits_nowhere_in_the_partition_unpins(new_host: NewHost) -> None:
    host = new_host(policy(INSIDE))
    create(host, run(host, "a"), memory=500 * MI)
    container = host.newest()
    answer = update(host, container, 3 * GI, reserved=3 * GI)
    assert answer.refusal is None
    assert answer.updates == (Update(container.container_id, "2-3"),)


def test_a_restart_charges_what_the_evidence_shows(new_host: NewHost) -> None:
    """A group on both nodes of the partition, and a container that is confined to them."""
    host = new_host(policy(INSIDE))
    pod = run(host, "a")
    assert create(host, pod, "group", 1500 * MI).adjustment == Adjustment("2-3")
    assert create(host, pod, "confined", reserved=0).adjustment == Adjustment("2-3")
    assert charged(restarted(host, policy(INSIDE))) == {"group": 1500 * MI}
    host.synchronize()
    assert charged(host) == {"group": 1500 * MI}


def test_nodes_that_only_unpinned_containers_get_are_not_charged(new_host: NewHost) -> None:
    """It fits nowhere; node 3 is another partition's, for pinned containers alone."""
    shared = Partition("ml", NodeSet([3]), namespaces=("ml",), exclusive=Exclusive.GUARANTEED)
    closed = Partition("db", NodeSet([2]), namespaces=("db",), exclusive=Exclusive.ALL)
    settings = policy(shared, closed)
    host = new_host(settings)
    answer = create(host, run(host, "a"), memory=3 * GI)
    assert answer.adjustment == Adjustment("0-1,3")
    assert charged(restarted(host, settings)) == {}
    host.synchronize()
    assert charged(host) == {}


def test_one_that_fits_nowhere_is_not_charged_after_a_reconnect(new_host: NewHost) -> None:
    """It is confined to both nodes; a pinned one has one of them."""
    host = new_host(policy(INSIDE))
    create(host, run(host, "a"))
    full = create(host, run(host, "b"), memory=3 * GI)
    assert names(full) == ["burstable_not_pinned", "confined"]
    host.synchronize()
    assert charged(host) == {"main": 200 * MI}


def test_a_container_that_another_setting_confined_is_not_charged(new_host: NewHost) -> None:
    host = new_host(policy(INSIDE))
    create(host, run(host, "a"), "confined", reserved=0)
    moved = replace(INSIDE, nodes=NodeSet([1]))
    assert charged(restarted(host, policy(moved))) == {}


def test_a_known_container_is_charged_without_evidence(new_host: NewHost) -> None:
    host = new_host(policy(INSIDE))
    create(host, run(host, "a"))
    container = host.newest()
    facts = container.burstable
    assert facts is not None
    lost = replace(container, burstable=replace(facts, reserved_bytes=0), cpuset_mems="3")
    host.containers[container.container_id] = lost
    host.synchronize()
    assert charged(host) == {"main": 200 * MI}
    assert charged(restarted(host, policy(INSIDE))) == {}


def test_a_memory_policy_does_not_free_a_container_from_its_partition(new_host: NewHost) -> None:
    policies = MemoryPolicies(defaults={"ns": PolicyMode.INTERLEAVE})
    host = new_host(replace(policy(INSIDE), memory_policies=policies))
    pod = run(host, "a")
    container = events.Container("c", pod.sandbox_id, "main")
    asked = PolicyRequest()
    adjustment = host.handle(events.CreateContainer(pod, container, None, asked)).adjustment
    assert adjustment is not None
    assert adjustment.cpuset_mems == "2-3"
    assert adjustment.memory_policy is not None
    assert adjustment.memory_policy.nodes == NodeSet([2, 3])
