"""Of equally good nodes one wins that leaves room for the rest of the pod."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.policy import Policy
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.engine.conftest import four_nodes

if TYPE_CHECKING:
    from nri_numamem.engine.core.events import PodSandbox
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
RESERVED = tuple(Reservation(node, {"memory": 92 * MI}) for node in range(4))  # 900 MiB are free


@pytest.fixture
def host(new_host: NewHost) -> Host:
    """Nodes 0 to 3 with 900, 500, 400 and 300 MiB free."""
    host = new_host(Policy(reserved_memory=RESERVED))
    fill(host, 0, 400, 500, 600)
    return host


def fill(host: Host, *memory: int) -> None:
    """Let pods of one container hold this many MiB of each node."""
    for node, size in enumerate(memory):
        if size:
            pod = host.run(f"full-{node}", memory=size * MI)
            assert nodes_of(host, pod, "main", size, cpus=f"{4 * node}") == str(node)


def nodes_of(host: Host, pod: PodSandbox, name: str, size: int, cpus: str = "") -> str | None:
    """Create a container of some MiB; return its nodes, or None if it is refused."""
    adjustment = host.create(pod, name, size * MI, cpus=cpus).adjustment
    return None if adjustment is None else adjustment.cpuset_mems


def test_the_first_container_leaves_the_node_that_the_second_one_needs(host: Host) -> None:
    pod = host.run("a", memory=1000 * MI)
    assert nodes_of(host, pod, "one", 300) == "1"
    assert nodes_of(host, pod, "two", 700) == "0"


def test_without_a_limit_of_the_pod_the_lowest_id_wins(host: Host) -> None:
    pod = host.run("a")
    assert nodes_of(host, pod, "one", 300) == "0"
    assert nodes_of(host, pod, "two", 700) is None


def test_the_lowest_id_wins_if_the_rest_fits_after_it(host: Host) -> None:
    pod = host.run("a", memory=800 * MI)
    assert nodes_of(host, pod, "one", 300) == "0"
    assert nodes_of(host, pod, "two", 500) == "0"


def test_the_lowest_id_wins_if_the_rest_fits_beside_the_container(host: Host) -> None:
    """No other node could hold the rest."""
    pod = host.run("a", memory=850 * MI)
    assert nodes_of(host, pod, "one", 300) == "0"
    assert nodes_of(host, pod, "two", 550) == "0"


def test_the_lowest_id_wins_if_the_rest_fits_on_no_node(host: Host) -> None:
    pod = host.run("a", memory=1300 * MI)
    assert nodes_of(host, pod, "one", 300) == "0"
    assert [nodes_of(host, pod, name, 500) for name in ("two", "three")] == ["0", "1"]


def test_the_lowest_id_wins_if_no_equal_node_leaves_room(host: Host) -> None:
    pod = host.run("a", memory=1500 * MI)
    assert nodes_of(host, pod, "one", 600) == "0"


def test_hints_of_cpus_come_first(host: Host) -> None:
    pod = host.run("a", memory=1000 * MI)
    assert nodes_of(host, pod, "one", 300, cpus="0") == "0"


def test_among_the_nodes_of_the_cpus_one_that_leaves_room_wins(host: Host) -> None:
    pod = host.run("a", memory=1000 * MI)
    assert nodes_of(host, pod, "one", 250, cpus="0,12") == "3"
    assert nodes_of(host, pod, "two", 750) == "0"


def test_previous_nodes_come_first(host: Host) -> None:
    pod = host.run("a", memory=300 * MI)
    assert nodes_of(host, pod, "one", 300) == "0"
    host.stop_pod(pod)
    again = host.run("a", memory=1000 * MI)
    assert nodes_of(host, again, "one", 300) == "0"


def test_closer_nodes_come_first(new_host: NewHost) -> None:
    """Node 0 has a smaller distance to itself than node 1, which ACPI does not allow."""
    machine = Machine(
        tuple(
            NumaNode(
                node_id=node,
                memory_bytes=(992 - 400 * node) * MI,
                cpus=CpuSet(range(4 * node, 4 * node + 4)),
                distances={0: 10 if node == 0 else 20, 1: 20 if node == 0 else 11},
            )
            for node in (0, 1)
        )
    )
    closest = Policy(reserved_memory=RESERVED[:2])
    host = new_host(closest, machine=machine)
    assert nodes_of(host, host.run("a", memory=1000 * MI), "one", 300) == "0"
    host = new_host(replace(closest, prefer_closest_numa_nodes=False), machine=machine)
    assert nodes_of(host, host.run("a", memory=1000 * MI), "one", 300) == "1"


def test_hugepages_of_the_rest_count(new_host: NewHost) -> None:
    nodes = [
        replace(node, hugepages={PAGE: 16 if node.node_id == 0 else 0})
        for node in four_nodes().nodes
    ]
    host = new_host(Policy(reserved_memory=RESERVED), machine=Machine(tuple(nodes)))
    host.shows_hugepages = True
    pod = host.run("a", memory=1100 * MI, hugepages={PAGE: 16 * PAGE})
    assert host.create(pod, "one", 300 * MI, hugepages={}).adjustment is not None
    answer = host.create(pod, "two", 800 * MI, hugepages={PAGE: 16 * PAGE})
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0"


def test_what_an_ended_container_holds_is_room_for_the_rest(host: Host) -> None:
    """The init container holds 600 MiB of node 0, which only a container on node 0 can reuse."""
    pod = host.run("a", memory=950 * MI)
    assert nodes_of(host, pod, "init", 600) == "0"
    host.stop(host.newest("init"))
    assert nodes_of(host, pod, "one", 300) == "1"
    assert nodes_of(host, pod, "two", 650) == "0"


@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
def test_the_lowest_id_wins_if_the_rest_needs_several_nodes(new_host: NewHost, policy: str) -> None:
    """Only two nodes without assignments hold 1,700 MiB together."""
    host = new_host(Policy(reserved_memory=RESERVED, topology_manager_policy=policy))
    fill(host, 0, 0, 100, 100)
    pod = host.run("a", memory=2000 * MI)
    assert nodes_of(host, pod, "one", 300) == "0"


def test_the_lowest_id_wins_if_the_container_fits_on_no_other_node(host: Host) -> None:
    pod = host.run("a", memory=1400 * MI)
    assert nodes_of(host, pod, "one", 600) == "0"
