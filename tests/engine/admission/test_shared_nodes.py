"""The node sets that the containers of a pod share; test_pod_level has whole creations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_numamem.engine.admission import shared_nodes
from nri_numamem.numa import NodeSet

if TYPE_CHECKING:
    from tests.engine.conftest import Host

MI = 1 << 20


def test_only_live_containers_count_each_set_once(host: Host) -> None:
    pod = host.run("a")
    for name, cpus in (("one", "0-3"), ("two", "4-7"), ("three", "4-7"), ("four", "8-11")):
        host.create(pod, name, 100 * MI, cpus=cpus)
    host.stop(host.newest("four"))
    found = shared_nodes.of_live_others(host.engine.state, ("a", "one"))
    assert found == [NodeSet([1])]


def test_a_set_that_cannot_be_extended_is_passed_over(host: Host) -> None:
    host.create(host.run("other"), "main", 100 * MI)
    pod = host.run("a")
    host.create(pod, "one", 100 * MI, cpus="0-3")
    host.create(pod, "two", 100 * MI, cpus="4-7")
    context, state = host.engine.context, host.engine.state
    sets = [NodeSet([0]), NodeSet([1])]
    found = shared_nodes.extend(context, state, ("a", "three"), {"memory": 1000 * MI}, sets)
    assert found is not None
    assert str(found[1]) == "1-2"
    assert shared_nodes.extend(context, state, ("a", "three"), {"memory": 1 << 40}, sets) is None
